//! Writes core dumps from a description.
//!
//! Shares nothing with the reader: the layouts are written down here a second time, from the headers of
//! Linux, so that a mistake on one side does not meet itself on the other.

pub const R: u32 = 4;
pub const RW: u32 = 6;
pub const RX: u32 = 5;

/// A core to be written.
#[derive(Clone, Default)]
pub struct Core {
    notes: Vec<u8>,
    loads: Vec<Load>,
    /// Write the number of program headers as cores with more than 65,534 of them do.
    pub extended_count: bool,
}

#[derive(Clone)]
struct Load {
    start: u64,
    size: u64,
    flags: u32,
    bytes: Vec<u8>,
}

/// The registers that a test cares for.
#[derive(Clone, Copy, Default)]
pub struct Regs {
    pub rip: u64,
    pub rsp: u64,
    pub rbp: u64,
}

impl Core {
    pub fn note(mut self, owner: &str, kind: u32, content: &[u8]) -> Self {
        let mut put = |bytes: &[u8]| {
            self.notes.extend_from_slice(bytes);
            while !self.notes.len().is_multiple_of(4) {
                self.notes.push(0);
            }
        };
        put(&(owner.len() as u32 + 1).to_le_bytes());
        put(&(content.len() as u32).to_le_bytes());
        put(&kind.to_le_bytes());
        put(format!("{owner}\0").as_bytes());
        put(content);
        self
    }

    /// `struct elf_prstatus`, 336 bytes.
    pub fn thread(self, tid: u32, signal: u16, regs: Regs) -> Self {
        let mut status = vec![0; 336];
        status[12..14].copy_from_slice(&signal.to_le_bytes());
        status[32..36].copy_from_slice(&tid.to_le_bytes());
        let user_regs = 112;
        for (name, value) in [
            ("rbp", regs.rbp),
            ("rip", regs.rip),
            ("rsp", regs.rsp),
            ("fs_base", 0xf5),
        ] {
            const ORDER: [&str; 27] = [
                "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx",
                "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds",
                "es", "fs", "gs",
            ];
            let at = user_regs + 8 * ORDER.iter().position(|known| *known == name).unwrap();
            status[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        self.note("CORE", 1, &status)
    }

    /// `siginfo_t`, 128 bytes; `value` is the address or the sender.
    pub fn signal(self, number: i32, code: i32, value: u64) -> Self {
        let mut info = vec![0; 128];
        info[0..4].copy_from_slice(&number.to_le_bytes());
        info[8..12].copy_from_slice(&code.to_le_bytes());
        info[16..24].copy_from_slice(&value.to_le_bytes());
        self.note("CORE", u32::from_be_bytes(*b"SIGI"), &info)
    }

    /// `struct elf_prpsinfo`, 136 bytes.
    pub fn program(self, pid: u32, name: &str, arguments: &str) -> Self {
        let mut info = vec![0; 136];
        info[24..28].copy_from_slice(&pid.to_le_bytes());
        info[40..40 + name.len()].copy_from_slice(name.as_bytes());
        info[56..56 + arguments.len()].copy_from_slice(arguments.as_bytes());
        self.note("CORE", 3, &info)
    }

    /// The mapped files: start, end, offset in units, path.
    pub fn files(self, unit: u64, files: &[(u64, u64, u64, &str)]) -> Self {
        let mut content = Vec::new();
        content.extend((files.len() as u64).to_le_bytes());
        content.extend(unit.to_le_bytes());
        for (start, end, offset, _) in files {
            [start, end, offset]
                .into_iter()
                .for_each(|value| content.extend(value.to_le_bytes()));
        }
        for (.., path) in files {
            content.extend(path.as_bytes());
            content.push(0);
        }
        self.note("CORE", u32::from_be_bytes(*b"FILE"), &content)
    }

    /// The auxiliary vector.
    pub fn auxv(self, entries: &[(u64, u64)]) -> Self {
        let content: Vec<u8> = entries
            .iter()
            .chain(&[(0, 0)])
            .flat_map(|(key, value)| [key.to_le_bytes(), value.to_le_bytes()].concat())
            .collect();
        self.note("CORE", 6, &content)
    }

    /// A mapping of `size` bytes of which the first are dumped.
    pub fn load(mut self, start: u64, size: u64, flags: u32, bytes: &[u8]) -> Self {
        self.loads.push(Load {
            start,
            size,
            flags,
            bytes: bytes.to_vec(),
        });
        self
    }

    /// Mapped words.
    pub fn words(self, start: u64, words: &[u64]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let size = bytes.len() as u64;
        self.load(start, size, RW, &bytes)
    }

    pub fn build(&self) -> Vec<u8> {
        let count = self.loads.len() + 1;
        let mut at = 64 + 56 * count as u64;
        let mut headers = Vec::new();
        let mut contents = Vec::new();
        let notes = (4_u32, 0_u32, 0_u64, &self.notes, self.notes.len() as u64);
        let loads = self
            .loads
            .iter()
            .map(|load| (1, load.flags, load.start, &load.bytes, load.size));
        for (kind, flags, vaddr, bytes, size) in std::iter::once(notes).chain(loads) {
            headers.extend(kind.to_le_bytes());
            headers.extend(flags.to_le_bytes());
            for value in [at, vaddr, 0, bytes.len() as u64, size, 4] {
                headers.extend(value.to_le_bytes());
            }
            contents.extend_from_slice(bytes);
            at += bytes.len() as u64;
        }
        let (sections, count_field) = if self.extended_count {
            (at, 0xffff)
        } else {
            (0, count as u16)
        };
        let mut file = elf_header(4, sections, count_field);
        file.extend(headers);
        file.extend(contents);
        if self.extended_count {
            let mut section = vec![0; 64];
            section[44..48].copy_from_slice(&(count as u32).to_le_bytes());
            file.extend(section);
        }
        file
    }
}

fn elf_header(kind: u16, sections: u64, count: u16) -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    header.extend(kind.to_le_bytes());
    header.extend(62_u16.to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    for value in [0, 64, sections] {
        header.extend(u64::to_le_bytes(value));
    }
    header.extend(0_u32.to_le_bytes());
    for value in [64, 56, count, 64, 0, 0] {
        header.extend(u16::to_le_bytes(value));
    }
    header
}

/// A shared library of one page, all of it one executable segment linked at 0, with a build-id and no
/// unwind information; `code` stands at [`CODE`].
pub fn library(build_id: &[u8], code: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for value in [4, build_id.len() as u32, 3] {
        note.extend(u32::to_le_bytes(value));
    }
    note.extend(b"GNU\0");
    note.extend(build_id);
    let mut file = elf_header(3, 0, 2);
    let headers = [
        (1_u32, 5_u32, [0, 0, 0, 4096, 4096, 4096]),
        (4, 4, [0x200, 0x200, 0, note.len() as u64, note.len() as u64, 4]),
    ];
    for (kind, flags, values) in headers {
        file.extend(kind.to_le_bytes());
        file.extend(flags.to_le_bytes());
        values
            .into_iter()
            .for_each(|value| file.extend(u64::to_le_bytes(value)));
    }
    file.resize(0x200, 0);
    file.extend(note);
    file.resize(CODE as usize, 0);
    file.extend(code);
    file.resize(4096, 0x90);
    file
}

/// Where the code of [`library`] stands in it.
pub const CODE: u64 = 0x400;
