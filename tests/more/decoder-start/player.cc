// A player with a sound track and a picture track.
#include "decoder.hh"

#include <array>
#include <cstdio>
#include <cstring>
#include <numeric>

class AudioDecoder : public Decoder {
public:
	AudioDecoder(std::string name, PacketSource &source) : Decoder(std::move(name), source), gain_(3) {} // @derived

protected:
	Frame decode(const Packet &packet) override
	{
		std::int64_t level = 0;
		for (std::uint8_t sample : packet.bytes)
			level += gain_ * (sample - 128);
		return {packet.number, level};
	}
	const char *format() const override { return "pcm"; }

private:
	int gain_;
};

class VideoDecoder : public Decoder {
public:
	VideoDecoder(std::string name, PacketSource &source) : Decoder(std::move(name), source)
	{
		std::iota(palette_.begin(), palette_.end(), 0);
	}

protected:
	Frame decode(const Packet &packet) override
	{
		std::int64_t level = 0;
		for (std::uint8_t index : packet.bytes)
			level += palette_[index % palette_.size()];
		return {packet.number, level};
	}
	const char *format() const override { return "indexed"; }

private:
	std::array<std::int64_t, 16> palette_{};
};

struct Track {
	std::unique_ptr<PacketSource> source;
	std::unique_ptr<Decoder> decoder;
};

template <class Kind>
Track open_track(const char *name, unsigned packets)
{
	Track track;
	track.source = std::make_unique<PacketSource>(packets);
	track.decoder = std::make_unique<Kind>(name, *track.source); // @make
	return track;
}

void print_track(Track &track)
{
	std::int64_t sum = 0;
	auto frames = track.decoder->frames();
	for (const Frame &frame : frames)
		sum += frame.level;
	std::printf("%s: %zu frames, level %lld\n", track.decoder->name().c_str(), frames.size(),
		    static_cast<long long>(sum));
}

int main(int argc, char **argv)
{
	std::vector<Track> tracks;

	for (const char *language : {"english", "german"})
		tracks.push_back(open_track<AudioDecoder>(language, 3)); // @open
	if (argc > 1 && std::strcmp(argv[1], "--video") == 0)
		tracks.push_back(open_track<VideoDecoder>("picture", 4));
	for (Track &track : tracks)
		track.decoder->wait();
	for (Track &track : tracks)
		print_track(track);
	return 0;
}
