//! A trace as it comes out of an AUX buffer, in segments.

/// A trace that is read piece by piece: segments that each can be decoded by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuxTrace {
    /// The segments, oldest first.
    pub segments: Vec<Vec<u8>>,
}

impl AuxTrace {
    /// Adds what was read: its bytes, and where they break off.
    pub fn add(&mut self, bytes: &[u8], cuts: &[usize]) {
        let mut from = 0;
        for &cut in cuts {
            self.extend(bytes.get(from..cut).unwrap_or_default());
            self.segments.push(Vec::new());
            from = cut;
        }
        self.extend(bytes.get(from..).unwrap_or_default());
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.segments.is_empty() {
            self.segments.push(Vec::new());
        }
        if let Some(last) = self.segments.last_mut() {
            last.extend_from_slice(bytes);
        }
    }

    /// The segments that have something in them. The kernel hands out zeroed buffers, and a flight recorder that was not
    /// full has zeros (PAD packets) before its data.
    #[must_use]
    pub fn finish(self) -> Vec<Vec<u8>> {
        let trimmed = self.segments.into_iter().map(|mut segment| {
            let zeros = segment.iter().take_while(|&&byte| byte == 0).count();
            segment.drain(..zeros);
            segment
        });
        trimmed.filter(|segment| !segment.is_empty()).collect()
    }
}
