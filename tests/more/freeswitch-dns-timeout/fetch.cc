// Fetches a few pages: looks the host up, then connects to its first address.

#include "resolver.hh"

#include <cstdio>
#include <vector>

struct Connection {
    std::string host;
    unsigned peer;
    unsigned short port;
};

static Connection Connect(const HostEntry* host)
{
    const Address* first = host->addresses; // @first
    Connection connection;
    connection.host = host->name;
    connection.port = first->port; // @fail
    wait_microseconds(200, 900);
    connection.peer = 0;
    for (unsigned char byte : first->bytes)
        connection.peer = connection.peer << 8 | byte;
    return connection;
}

static void PrintConnections(const std::vector<Connection>& connections)
{
    for (const Connection& connection : connections)
        std::printf("%s: %08x:%u\n", connection.host.c_str(), connection.peer, connection.port);
}

int main()
{
    Resolver resolver;
    std::vector<Connection> connections;

    for (const char* name : {"www.example.org", "static.example.net"}) {
        HostEntry* host = resolver.Lookup(name); // @lookup
        if (host->status == Status::Found) // @status
            connections.push_back(Connect(host)); // @connect
        FreeHost(host);
    }
    PrintConnections(connections);
    resolver.PrintCounts();
    return 0;
}
