/* Compilers give line 0 to code that belongs to no line; here the crashing instruction has it. */
int main(int argc, char **argv)
{
	int *target = argc > 1 ? &argc : 0;

	(void)argv;
	__asm__ volatile(".loc 1 0 0\n\tmovl $1, (%0)" : : "r"(target) : "memory"); /* @fail */
	return 0;
}
