//! Where members of the kernel's structures are, by its own description of its types (BTF).

use std::fs;
use std::sync::OnceLock;

const FILE: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Structures that are in one another without a name.
const DEPTH: u32 = 4;

const STRUCT: u8 = 4;
const UNION: u8 = 5;

/// Where a thread's probe is to be found: from the thread to what the kernel keeps for probes, and from there to the address
/// of the instruction that is being run in the place of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbedAt {
    pub(super) task_to_probes: i16,
    pub(super) probes_to_address: i16,
}

impl ProbedAt {
    /// As in this kernel; none where it does not say.
    pub(super) fn here() -> Option<Self> {
        static HERE: OnceLock<Option<ProbedAt>> = OnceLock::new();
        *HERE.get_or_init(|| Self::of(&fs::read(FILE).ok()?))
    }

    fn of(description: &[u8]) -> Option<Self> {
        let types = Types::read(description)?;
        Some(Self {
            task_to_probes: types.offset("task_struct", "utask")?,
            probes_to_address: types.offset("uprobe_task", "vaddr")?,
        })
    }
}

/// All types of a description.
struct Types<'b> {
    strings: &'b [u8],
    /// By their numbers less one.
    types: Vec<Type<'b>>,
}

#[derive(Clone, Copy)]
struct Type<'b> {
    name: u32,
    kind: u8,
    /// Whether members say besides where they are how many bits they have.
    has_bit_fields: bool,
    /// Each a name, a type and where it is, in bits.
    members: &'b [[u8; 12]],
}

impl<'b> Types<'b> {
    fn read(bytes: &'b [u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let magic = bytes.first_chunk().map(|magic| u16::from_le_bytes(*magic));
        if magic != Some(MAGIC) {
            return None;
        }
        let header = usize::try_from(word(4)?).ok()?;
        let part = |offset: usize| {
            let from = header.checked_add(usize::try_from(word(offset)?).ok()?)?;
            let len = usize::try_from(word(offset + 4)?).ok()?;
            bytes.get(from..from.checked_add(len)?)
        };
        let (mut rest, strings) = (part(8)?, part(16)?);
        let mut types = Vec::new();
        while let Some((head, behind)) = rest.split_first_chunk::<12>() {
            let [name, info] =
                [0, 4].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
            let kind = (info >> 24 & 0x1f) as u8;
            let count = (info & 0xffff) as usize;
            let len = match kind {
                // A number, a variable, where a declaration's tag belongs.
                1 | 14 | 17 => 4,
                3 => 12,
                STRUCT | UNION | 15 | 19 => count * 12,
                6 | 13 => count * 8,
                2 | 7..=12 | 16 | 18 => 0,
                _ => return None,
            };
            let (own, next) = behind.split_at_checked(len)?;
            types.push(Type {
                name,
                kind,
                has_bit_fields: info >> 31 != 0,
                members: match kind {
                    STRUCT | UNION => own.as_chunks().0,
                    _ => &[],
                },
            });
            rest = next;
        }
        Some(Self { strings, types })
    }

    fn name(&self, at: u32) -> Option<&'b [u8]> {
        let text = self.strings.get(usize::try_from(at).ok()?..)?;
        text.split(|byte| *byte == 0).next()
    }

    /// Where a member is in a structure, in bytes.
    fn offset(&self, structure: &str, member: &str) -> Option<i16> {
        let named = |of: &&Type<'_>| of.kind == STRUCT && self.name(of.name) == Some(structure.as_bytes());
        let structure = self.types.iter().find(named)?;
        let bits = self.bits_to(structure, member.as_bytes(), DEPTH)?;
        i16::try_from(bits / 8).ok().filter(|_| bits % 8 == 0)
    }

    fn bits_to(&self, of: &Type<'_>, wanted: &[u8], depth: u32) -> Option<u32> {
        of.members.iter().find_map(|member| {
            let word = |at: usize| Some(u32::from_le_bytes(*member.get(at..)?.first_chunk()?));
            let mut at = word(8)?;
            if of.has_bit_fields {
                at &= 0x00ff_ffff;
            }
            let name = self.name(word(0)?)?;
            if name == wanted {
                return Some(at);
            }
            let inner = self.types.get(usize::try_from(word(4)?).ok()?.checked_sub(1)?)?;
            let is_open = name.is_empty() && matches!(inner.kind, STRUCT | UNION) && depth > 0;
            let further = is_open.then(|| self.bits_to(inner, wanted, depth - 1))??;
            at.checked_add(further)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `struct outer { int a; union { struct { long b; }; } ; }`, as a compiler describes it.
    fn description() -> Vec<u8> {
        let strings = b"\0int\0outer\0a\0b\0long\0";
        let head = |name: u32, kind: u32, count: u32, size: u32| [name, kind << 24 | count, size];
        let mut types: Vec<u32> = Vec::new();
        types.extend(head(1, 1, 0, 4));
        types.push(32);
        types.extend(head(15, 1, 0, 8));
        types.push(64);
        types.extend(head(0, STRUCT.into(), 1, 16));
        types.extend([13, 2, 64]);
        types.extend(head(0, UNION.into(), 1, 16));
        types.extend([0, 3, 0]);
        types.extend(head(5, STRUCT.into(), 2, 24));
        types.extend([11, 1, 0, 0, 4, 64]);
        let len = types.len() as u32 * 4;
        let header = [u32::from(MAGIC) | 1 << 16, 24, 0, len, len, strings.len() as u32];
        let words = header.into_iter().chain(types);
        let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_in_structures_without_names() {
        let bytes = description();
        let types = Types::read(&bytes).unwrap();
        assert_eq!(types.offset("outer", "a"), Some(0));
        assert_eq!(types.offset("outer", "b"), Some(16));
        assert_eq!(types.offset("outer", "c"), None);
        assert_eq!(types.offset("int", "a"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_description_or_none(change in any::<prop::sample::Index>(), to: u8) {
            let mut bytes = description();
            let at = change.index(bytes.len());
            bytes[at] = to;
            let found = Types::read(&bytes).and_then(|types| types.offset("outer", "b"));
            prop_assert!(found.is_none_or(|offset| offset >= 0 || to > 0));
        }
    }
}
