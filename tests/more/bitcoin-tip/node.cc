// A node of a payment network: one thread follows the best chain, and gives
// up blocks when another branch is longer; another one answers requests.

#include "chain.hh"

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string_view>
#include <thread>

using BlockChain = Chain<BlockIndex>;

class Clock {
public:
    void wait(unsigned least, unsigned most)
    {
        std::uniform_int_distribution<unsigned> time(least, most);
        std::this_thread::sleep_for(std::chrono::microseconds(time(random_)));
    }

private:
    std::minstd_rand random_{std::random_device{}()};
};

/// Puts back the transactions of blocks that are not in the chain any more.
class Mempool {
public:
    void add_for_reorg(unsigned transactions, Clock& disk)
    {
        disk.wait(200, 1400);
        size_ += transactions;
    }
    unsigned size() const { return size_; }

private:
    unsigned size_ = 0;
};

class ChainState {
public:
    explicit ChainState(BlockChain& chain) : chain_(chain) {}
    void connect(std::uint64_t hash, unsigned transactions);
    void disconnect_tip();
    unsigned reorganisations() const { return reorganisations_; }

private:
    BlockChain& chain_;
    Mempool pool_;
    Clock disk_;
    unsigned reorganisations_ = 0;
};

void ChainState::connect(std::uint64_t hash, unsigned transactions)
{
    const BlockIndex* block = chain_.append(hash, transactions);
    disk_.wait(300, 3000);
    chain_.set_tip(block);
}

/// The chain has no tip while the block's outputs are undone.
void ChainState::disconnect_tip()
{
    const BlockIndex* block = chain_.tip();
    chain_.detach(); // @detach
    pool_.add_for_reorg(block->transactions, disk_);
    chain_.set_tip(block->previous);
    reorganisations_++;
}

class RpcServer {
public:
    explicit RpcServer(const BlockChain& chain);
    long call(std::string_view method) const;

private:
    long get_block_count() const;
    long get_difficulty() const;

    const BlockChain& chain_;
    std::map<std::string_view, std::function<long()>> methods_;
};

RpcServer::RpcServer(const BlockChain& chain) : chain_(chain)
{
    methods_["getblockcount"] = [this] { return get_block_count(); }; // @method
    methods_["getdifficulty"] = [this] { return get_difficulty(); };
    methods_["uptime"] = [] { return 12L; };
}

long RpcServer::get_block_count() const
{
    const BlockIndex* tip = chain_.tip(); // @count-tip
    return tip->height; // @fail
}

long RpcServer::get_difficulty() const
{
    return 1 << 20;
}

long RpcServer::call(std::string_view method) const
{
    auto found = methods_.find(method);
    return found == methods_.end() ? -1 : found->second();
}

static void follow_chain(ChainState& state)
{
    Clock peer;
    for (unsigned round = 0; round < 3; round++) {
        peer.wait(500, 4000);
        state.connect(0x51ed * (round + 3), 2 + round);
        if (round > 0)
            state.disconnect_tip(); 
    }
}

static long serve_rpc(const RpcServer& server)
{
    static constexpr std::array<std::string_view, 4> requests{
        "uptime", "getblockcount", "getdifficulty", "getblockcount"};
    Clock client;
    long sum = 0;
    for (std::string_view request : requests) {
        client.wait(300, 7000);
        sum += server.call(request);
    }
    return sum;
}

static void print_info(const BlockChain& chain, const ChainState& state)
{
    std::printf("%s, %u reorganisations\n", chain.describe().c_str(), state.reorganisations());
}

int main()
{
    BlockChain chain;
    ChainState state(chain);
    RpcServer server(chain);
    state.connect(0x6fe2, 1);

    long answers = 0;
    std::thread rpc([&] { answers = serve_rpc(server); });
    std::thread net([&] { follow_chain(state); });
    rpc.join();
    net.join();
    print_info(chain, state);
    return answers < 0;
}
