#include <stdlib.h>
struct reply { int status; int *body; };
__attribute__((noinline)) int fetch(long key, struct reply *reply) {
    reply->status = 200; // out
    if (key > 9) // maybe
        reply->body = (int *)key; // in
    return 0; // out
}
__attribute__((noinline)) int deref(int *at) {
    return *at; // from
}
int main(int argc, char **argv) {
    struct reply reply; // out
    reply.body = 0; // in
    long key = atol(argv[1]); // in
    fetch(key, &reply); // in
    return deref(reply.body); // in
}
