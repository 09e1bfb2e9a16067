// Media decoders: each has a thread of its own that takes packets from a source.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Packet {
	unsigned number = 0;
	std::vector<std::uint8_t> bytes;
};

struct Frame {
	unsigned number = 0;
	std::int64_t level = 0;
};

void device_wait(unsigned least, unsigned most);

/// Packets from the network, in order; an empty pointer is the end.
class PacketSource {
public:
	explicit PacketSource(unsigned packets) : left_(packets) {}
	std::unique_ptr<Packet> next();

private:
	unsigned left_;
	unsigned number_ = 0;
};

class Decoder {
public:
	Decoder(std::string name, PacketSource &source);
	virtual ~Decoder();

	void wait();
	const std::string &name() const { return name_; }
	std::vector<Frame> frames();

protected:
	virtual Frame decode(const Packet &packet) = 0;
	virtual const char *format() const = 0;

private:
	void run();
	void deliver(Frame frame);
	void open_output();

	std::string name_;
	PacketSource &source_;
	std::mutex lock_;
	std::vector<Frame> frames_;
	int output_ = -1;
	std::thread thread_;
};
