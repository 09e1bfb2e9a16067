// A list that is asked for more than it has; its other half is compiled apart.
#include "list.h"

int main(int argc, char **argv) {
    (void)argv;
    List list;
    Item items[2] = {{argc, nullptr}, {2, nullptr}};
    for (Item &item : items)
        list.push(&item);
    return drain(list);
}
