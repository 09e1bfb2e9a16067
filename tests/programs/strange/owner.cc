// Who owns what a smart pointer points to lets go of it while a thread is about to use it.
#include <memory>
#include <pthread.h>
#include <random>
#include <unistd.h>

struct Loader {
    unsigned received = 0;
};

struct Page {
    std::unique_ptr<Loader> loader;
};

static void wait_for_somebody(int most)
{
    std::random_device device;
    usleep(device() % most);
}

static void* respond(void* argument)
{
    Page* page = static_cast<Page*>(argument);
    wait_for_somebody(6000);
    Loader* loader = page->loader.get(); // read
    loader->received++; // fail
    return nullptr;
}

int main()
{
    auto page = std::make_unique<Page>();
    page->loader = std::make_unique<Loader>();
    pthread_t thread;
    pthread_create(&thread, nullptr, respond, page.get());
    wait_for_somebody(12000);
    page->loader.reset(); // reset
    pthread_join(thread, nullptr);
    return 0;
}
