/* A null pointer, a few frames deep; also without the C library. */
struct node {
	struct node *next;
	int value;
};

__attribute__((noinline)) static int third(struct node *node) { return node->next->value + 1; }
__attribute__((noinline)) static int second(struct node *node, int depth)
{
	volatile char room[40];
	room[0] = (char)depth;
	return depth ? second(node, depth - 1) + room[0] : third(node);
}

int main(void)
{
	struct node node = { 0, 7 };
	return second(&node, 3);
}

#ifdef BARE
void _start(void) { main(); }
#endif
