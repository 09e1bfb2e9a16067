#pragma once

#include <string>
#include <sys/types.h>

// Waits for a random time between two bounds, as networks make one wait.
void wait_microseconds(int least, int most);

struct Address {
    unsigned char bytes[4];
    unsigned short port;
    Address* next;
};

enum class Status { Found, Refused };

struct HostEntry {
    std::string name;
    Status status;
    Address* addresses;
};

// Looks names up with the help of a process, so that a lookup can be given up.
class Resolver {
public:
    Resolver();
    ~Resolver();

    HostEntry* Lookup(const std::string& name);
    void PrintCounts() const;

private:
    void Receive(HostEntry* host);
    void Serve(int requests, int answers);

    int requests_ = -1;
    int answers_ = -1;
    pid_t helper_ = 0;
    unsigned asked_ = 0;
    unsigned answered_ = 0;
};

void FreeHost(HostEntry* host);
