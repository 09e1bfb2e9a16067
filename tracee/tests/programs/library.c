// A library to open and close.
int in_library = 3;
int library_function(void) { return in_library; }
