//! The arithmetic of an AUX buffer: where the trace is in it, and where it has holes. Numbers in, numbers out: the same
//! for a buffer that the kernel writes and for one that a test made up.
//!
//! The rules, from perf_event_open(2), "MMAP layout" and PERF_RECORD_AUX, and from `kernel/events/ring_buffer.c` and
//! `arch/x86/events/intel/pt.c` where the manual page leaves them open:
//!
//! - A buffer that is mapped without PROT_WRITE is written over. `aux_head` is then a place in the buffer: behind it is
//!   what is oldest. `aux_tail` is not looked at.
//! - Else `aux_head` counts bytes for ever, and the place is its remainder. The kernel writes between `aux_tail` and
//!   `aux_tail` plus the size; we read between `aux_tail` and `aux_head`, and then move the former.
//! - The record of new data is written before `aux_head` moves: who reads the head first, and then the records, knows of
//!   all holes before the head.
//! - When there is no room the record is flagged as truncated and the event is disabled. It goes on when it is enabled,
//!   and what happened meanwhile is not in the buffer: the bytes before and behind that place are no one trace.
//! - When there was no room to begin with (the thread got the processor again, and nobody had read), the event is disabled
//!   without a record. Room is `CIRC_SPACE`: one byte less than is free. So a buffer that is found full is such a place,
//!   whatever the records say.
//! - Tracing that stopped because there was no room goes on only after a look. So where records were lost, one of which may
//!   have said that, the head is the one place where the trace can break off.

use std::ops::Range;

use super::aux_record::AuxRecord;

/// How the kernel treats a buffer that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuxMode {
    /// It writes over what is oldest (the buffer is mapped read-only). `aux_head` is a place in the buffer, and every
    /// record claims all of it.
    Snapshot,
    /// It stops the event, flags the record as truncated, and goes on when there is room and the event is enabled again.
    /// `aux_head` counts all bytes ever written.
    Streamed,
}

/// How far a buffer was read.
#[derive(Clone, Debug)]
pub struct AuxCursor {
    size: u64,
    mode: AuxMode,
    tail: u64,
    cuts: Vec<u64>,
    /// Records were lost since the last look.
    lost: bool,
    /// Times that the buffer was full.
    pub truncated: u64,
    /// Records with holes in their data.
    pub damaged: u64,
    /// Bytes that were overwritten before they were read.
    pub overrun: u64,
}

/// What there is to read: up to two parts of the buffer, one after the other, and where in them the trace breaks off and
/// begins anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// The parts.
    pub parts: [Range<usize>; 2],
    /// Offsets from the start of the first part, ascending.
    pub cuts: Vec<usize>,
}

impl Readable {
    /// How many bytes it is.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(ExactSizeIterator::len).sum()
    }

    /// Whether a flight recorder that holds these bytes was written over: the kernel hands out zeroed buffers, so there is
    /// something in the older part only then.
    #[must_use]
    pub fn went_round(&self, bytes: &[u8]) -> bool {
        let older = bytes.get(..self.parts[0].len()).unwrap_or(bytes);
        older.iter().any(|&byte| byte != 0)
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl AuxCursor {
    /// For a buffer of so many bytes, a power of two of pages.
    #[must_use]
    pub fn new(size: usize, mode: AuxMode) -> Self {
        Self {
            size: (size as u64).max(1),
            mode,
            tail: 0,
            cuts: Vec::new(),
            lost: false,
            truncated: 0,
            damaged: 0,
            overrun: 0,
        }
    }

    /// Takes note of a record. The kernel writes the record before it moves the head: whoever read the head first has
    /// seen all records of the data before it.
    pub fn note(&mut self, record: &AuxRecord) {
        let flags = record.flags;
        self.truncated += u64::from(flags.truncated());
        self.damaged += u64::from(flags.damaged());
        if self.mode == AuxMode::Streamed && (flags.truncated() || flags.damaged()) {
            self.cuts.push(record.offset.saturating_add(record.size));
        }
    }

    /// Takes note that records were lost.
    pub fn note_lost(&mut self) {
        self.lost = true;
    }

    /// What there is to read when the head is here.
    #[must_use]
    pub fn readable(&mut self, head: u64) -> Readable {
        match self.mode {
            AuxMode::Snapshot => {
                let at = (head % self.size) as usize;
                Readable {
                    parts: [at..self.size as usize, 0..at],
                    cuts: Vec::new(),
                }
            }
            AuxMode::Streamed => self.streamed(head),
        }
    }

    fn streamed(&mut self, head: u64) -> Readable {
        let waiting = head.saturating_sub(self.tail);
        let mut from = self.tail;
        if waiting > self.size {
            // The kernel does not write over what was not read. If it did, only the last of it would be there.
            from = head - self.size;
            self.overrun += from - self.tail;
        }
        if waiting >= self.size - 1 && !self.cuts.contains(&head) {
            self.truncated += 1;
            self.cuts.push(head);
        }
        if std::mem::take(&mut self.lost) && !self.cuts.contains(&head) {
            self.cuts.push(head);
        }
        let start = from % self.size;
        let len = head.saturating_sub(from);
        let first = len.min(self.size - start);
        let cuts = self.cuts.iter().filter(|&&cut| from <= cut && cut <= head);
        Readable {
            parts: [
                start as usize..(start + first) as usize,
                0..(len - first) as usize,
            ],
            cuts: cuts.map(|&cut| (cut - from) as usize).collect(),
        }
    }

    /// Everything up to the head was read; gives the tail to tell the kernel.
    pub fn done(&mut self, head: u64) -> u64 {
        if self.mode == AuxMode::Streamed {
            self.tail = head.max(self.tail);
            let tail = self.tail;
            self.cuts.retain(|&cut| cut > tail);
        }
        self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::super::aux_record::AuxFlags;
    use super::super::aux_trace::AuxTrace;
    use super::*;
    use proptest::prelude::*;

    const SIZE: usize = 4096;

    fn record(offset: u64, size: u64, flags: u64) -> AuxRecord {
        AuxRecord {
            offset,
            size,
            flags: AuxFlags(flags),
        }
    }

    /// A buffer that holds, at each place, the low byte of the number of the byte last written there.
    fn written(head: u64) -> Vec<u8> {
        let mut buffer = vec![0; SIZE];
        for number in head.saturating_sub(SIZE as u64)..head {
            buffer[(number % SIZE as u64) as usize] = (number % 251 + 1) as u8;
        }
        buffer
    }

    fn copy(buffer: &[u8], readable: &Readable) -> Vec<u8> {
        let [first, second] = &readable.parts;
        [&buffer[first.clone()], &buffer[second.clone()]].concat()
    }

    #[test]
    fn data_at_the_end_of_the_buffer_goes_on_at_its_beginning() {
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
        cursor.done(4000);
        let readable = cursor.readable(4200);
        assert_eq!(readable.parts, [4000..4096, 0..104]);
        assert_eq!((cursor.done(4200), cursor.overrun), (4200, 0));
        assert!(cursor.readable(4200).is_empty());
    }

    #[test]
    fn a_full_buffer_is_all_of_it() {
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
        assert_eq!(cursor.readable(4096).parts, [0..4096, 0..0]);
        cursor.done(100);
        assert_eq!(cursor.readable(4196).len(), SIZE);
        assert_eq!(cursor.overrun, 0);
    }

    #[test]
    fn a_truncated_record_ends_a_segment() {
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
        cursor.note(&record(0, 100, 1));
        cursor.note(&record(100, 50, 0));
        let readable = cursor.readable(150);
        assert_eq!(readable.cuts, [100]);
        let mut trace = AuxTrace::default();
        trace.add(&[7; 150], &readable.cuts);
        cursor.done(150);
        assert_eq!(cursor.readable(150).cuts, [0_usize; 0], "a cut is made once");
        let lengths: Vec<usize> = trace.finish().iter().map(Vec::len).collect();
        assert_eq!((lengths, cursor.truncated), (vec![100, 50], 1));
    }

    #[test]
    fn tracing_that_was_off_while_the_buffer_was_full_begins_a_segment_later() {
        // The event stops with the buffer full; what comes after it is enabled again is read with the next look.
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
        cursor.note(&record(0, 4096, 1));
        let mut trace = AuxTrace::default();
        let readable = cursor.readable(4096);
        trace.add(&[1; 4096], &readable.cuts);
        cursor.done(4096);
        let readable = cursor.readable(4106);
        trace.add(&[2; 10], &readable.cuts);
        assert_eq!(
            trace.finish().iter().map(Vec::len).collect::<Vec<_>>(),
            [4096, 10]
        );
    }

    #[test]
    fn a_full_buffer_ends_a_segment_also_without_a_record() {
        for (head, is_full) in [(4094, false), (4095, true), (4096, true)] {
            let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
            cursor.note(&record(0, head, 0));
            let readable = cursor.readable(head);
            let cuts: &[usize] = if is_full { &[head as usize] } else { &[] };
            assert_eq!(
                (&*readable.cuts, cursor.truncated),
                (cuts, u64::from(is_full)),
                "{head}"
            );
            cursor.done(head);
            assert_eq!(
                cursor.readable(head + 10).cuts,
                [0_usize; 0],
                "a cut is made once"
            );
        }
        // With a record it is the same place, once.
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
        cursor.note(&record(0, 4096, 1));
        assert_eq!((cursor.readable(4096).cuts, cursor.truncated), (vec![4096], 1));
    }

    #[test]
    fn where_records_were_lost_a_segment_ends() {
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
        cursor.note(&record(0, 10, 1));
        cursor.note_lost();
        assert_eq!(cursor.readable(100).cuts, [10, 100]);
        cursor.done(100);
        assert_eq!(cursor.readable(150).cuts, [0_usize; 0], "a cut is made once");
        // It is no second place when the record that was not lost tells of the same.
        cursor.note(&record(100, 50, 1));
        cursor.note_lost();
        assert_eq!((cursor.readable(150).cuts, cursor.truncated), (vec![50], 2));
    }

    #[test]
    fn holes_and_collisions_are_counted_and_cut() {
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
        cursor.note(&record(0, 10, 4));
        cursor.note(&record(10, 10, 8));
        assert_eq!(cursor.readable(20).cuts, [10, 20]);
        assert_eq!((cursor.damaged, cursor.truncated), (2, 0));
    }

    #[test]
    fn what_was_written_over_is_counted() {
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
        let readable = cursor.readable(5000);
        assert_eq!((readable.len(), cursor.overrun), (SIZE, 904));
        assert_eq!(copy(&written(5000), &readable)[0], (904 % 251 + 1) as u8);
    }

    #[test]
    fn a_flight_recorder_is_read_from_the_oldest_byte() {
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Snapshot);
        cursor.note(&record(500, SIZE as u64, 2));
        let full = 3 * SIZE as u64 + 500;
        let readable = cursor.readable(500);
        let bytes = copy(&written(full), &readable);
        assert!(readable.went_round(&bytes), "its beginning is gone");
        let expected: Vec<u8> = (full - SIZE as u64..full)
            .map(|number| (number % 251 + 1) as u8)
            .collect();
        assert_eq!(bytes, expected);
        assert_eq!(
            (cursor.truncated, cursor.damaged),
            (0, 0),
            "to be written over is no damage"
        );
    }

    #[test]
    fn a_flight_recorder_that_was_not_full_has_only_its_data() {
        let mut cursor = AuxCursor::new(SIZE, AuxMode::Snapshot);
        let mut trace = AuxTrace::default();
        let readable = cursor.readable(300);
        let bytes = copy(&written(300), &readable);
        assert!(!readable.went_round(&bytes), "nothing of it is gone");
        trace.add(&bytes, &[]);
        assert_eq!(trace.finish(), [written(300)[..300].to_vec()]);
        let mut nothing = AuxTrace::default();
        nothing.add(&copy(&written(0), &cursor.readable(0)), &[]);
        assert!(nothing.finish().is_empty());
    }

    proptest! {
        /// Whatever is written in whatever steps, and read in whatever steps, comes out once and in order.
        #[test]
        fn a_stream_comes_out_as_it_went_in(steps in prop::collection::vec((0_u64..=4096, any::<bool>()), 0..40)) {
            let mut cursor = AuxCursor::new(SIZE, AuxMode::Streamed);
            let mut trace = AuxTrace::default();
            let mut head = 0_u64;
            for (more, reads) in steps {
                // The kernel writes no more than there is room for.
                let room = SIZE as u64 - (head - cursor.tail);
                head += more.min(room);
                if reads {
                    let readable = cursor.readable(head);
                    trace.add(&copy(&written(head), &readable), &readable.cuts);
                    cursor.done(head);
                }
            }
            let expected: Vec<u8> = (0..cursor.tail).map(|number| (number % 251 + 1) as u8).collect();
            prop_assert_eq!(trace.segments.concat(), expected);
            prop_assert_eq!(cursor.overrun, 0);
        }

        /// No numbers make it panic or give parts that are not in the buffer.
        #[test]
        fn any_numbers_stay_in_the_buffer(heads in prop::collection::vec(any::<u64>(), 1..8), flags in any::<u64>(), snapshot in any::<bool>()) {
            let mode = if snapshot { AuxMode::Snapshot } else { AuxMode::Streamed };
            let mut cursor = AuxCursor::new(SIZE, mode);
            for head in heads {
                cursor.note(&record(head, head, flags));
                let readable = cursor.readable(head);
                prop_assert!(readable.parts.iter().all(|part| part.end <= SIZE && part.start <= part.end));
                let bytes = vec![1; readable.len()];
                AuxTrace::default().add(&bytes, &readable.cuts);
                cursor.done(head);
            }
        }
    }
}
