#include "list.h"

void List::push(Item *item) {
    item->next = head;
    head = item;
    length++;
}

int drain(List &list) {
    int sum = 0;
    for (int n = 0; n < 3; n++) {
        Item *first = list.head;
        sum += first->weight; // @fail
        list.head = first->next;
    }
    return sum;
}
