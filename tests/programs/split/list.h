struct Item {
    int weight;
    Item *next;
};

struct List {
    Item *head = nullptr;
    int length = 0;
    void push(Item *item);
};

int drain(List &list);
