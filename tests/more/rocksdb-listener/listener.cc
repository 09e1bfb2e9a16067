#include "listener.hh"

#include <algorithm>

void FlushCounter::on_flush_completed(const FlushInfo& info)
{
    bytes_ += info.bytes;
    flushes_++;
}

void FileTracker::on_flush_begin(const FlushInfo& info)
{
    in_work_ = info.file_number;
}

void FileTracker::on_flush_completed(const FlushInfo& info)
{
    if (in_work_ == info.file_number && files_.size() < most_)
        files_.push_back(info.file_number);
    in_work_ = 0;
}

void ListenerSet::add(std::unique_ptr<EventListener> listener)
{
    std::lock_guard lock(mutex_);
    listeners_.push_back(std::move(listener));
}

void ListenerSet::remove(const std::string& name)
{
    std::lock_guard lock(mutex_);
    auto found = std::find_if(listeners_.begin(), listeners_.end(),
                              [&](const auto& listener) { return name == listener->name(); });
    if (found != listeners_.end())
        listeners_.erase(found); // @erase
}

std::vector<EventListener*> ListenerSet::snapshot()
{
    std::lock_guard lock(mutex_);
    std::vector<EventListener*> all;
    for (const auto& listener : listeners_)
        all.push_back(listener.get());
    return all;
}
