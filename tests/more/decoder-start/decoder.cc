#include "decoder.hh"

#include <chrono>
#include <random>

/// A device or a peer takes from `least` to `most` microseconds.
void device_wait(unsigned least, unsigned most)
{
	thread_local std::minstd_rand random{std::random_device{}()};
	std::uniform_int_distribution<unsigned> range(least, most);

	std::this_thread::sleep_for(std::chrono::microseconds(range(random)));
}

std::unique_ptr<Packet> PacketSource::next()
{
	if (left_ == 0)
		return nullptr;
	left_--;
	device_wait(700, 4000);
	auto packet = std::make_unique<Packet>();
	packet->number = number_++;
	packet->bytes.resize(48);
	for (std::size_t i = 0; i < packet->bytes.size(); i++)
		packet->bytes[i] = static_cast<std::uint8_t>(i * (packet->number + 3));
	return packet;
}

Decoder::Decoder(std::string name, PacketSource &source) : name_(std::move(name)), source_(source) // @base
{
	thread_ = std::thread(&Decoder::run, this); // @start
	open_output();
}

Decoder::~Decoder()
{
	wait();
}

void Decoder::wait()
{
	if (thread_.joinable())
		thread_.join();
}

/// The sound card or the window that the frames go to.
void Decoder::open_output()
{
	device_wait(300, 1800);
	std::lock_guard<std::mutex> guard(lock_);
	output_ = static_cast<int>(name_.size());
}

void Decoder::deliver(Frame frame)
{
	std::lock_guard<std::mutex> guard(lock_);
	frames_.push_back(frame);
}

std::vector<Frame> Decoder::frames()
{
	std::lock_guard<std::mutex> guard(lock_);
	return frames_;
}

void Decoder::run()
{
	while (auto packet = source_.next()) { // @loop
		Frame frame = decode(*packet); // @fail
		deliver(frame);
	}
}
