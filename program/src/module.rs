//! One file of a program: its ELF structure, code and debug information together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use iced_x86::{FastFormatter, FlowControl, Instruction, Register};
use object::LittleEndian as LE;
use object::elf::PT_GNU_RELRO;

use crate::addr::{LinkAddr, LinkRange};
use crate::code::{Access, Code, FunctionId, Removed, accesses};
use crate::elf::{Elf, ElfError, ElfKind, SymbolKind};
use crate::files::{Files, Reading};
use crate::objects::{Object, Objects};
use crate::source::{DebugStatus, SourceFrame, Sources};

/// What tells the code that enters or leaves a function from the rest of it.
struct Outline {
    /// Source positions, line and column, of the first instruction and of the returns: the function's braces.
    boundaries: Vec<(u32, u16)>,
    /// Instructions, from start to end, that neither branch nor touch memory outside of the frame.
    quiet: Vec<(LinkAddr, LinkAddr)>,
}

/// An executable or shared object.
pub struct Module<'a> {
    name: String,
    library: bool,
    elf: Arc<Elf<'a>>,
    code: Code<'a>,
    sources: Sources<'a>,
    exports: OnceLock<HashMap<&'a str, LinkAddr>>,
    objects: OnceLock<Objects<'a>>,
    outlines: Mutex<HashMap<FunctionId, Arc<Outline>>>,
}

impl<'a> Module<'a> {
    /// Opens a module. Little is read now; the rest when it is asked for.
    ///
    /// # Errors
    /// When the bytes are not an x86-64 executable or shared object.
    pub fn load(name: &str, bytes: &'a [u8], files: &'a dyn Files) -> Result<Self, ElfError> {
        let elf = Arc::new(Elf::parse(bytes)?);
        // These are read from one end to the other, and soon.
        for name in [".symtab", ".rela.dyn"] {
            let (_, section) = elf.section(name).unwrap_or_default();
            files.expect(section, Reading::Through);
        }
        let sources = Sources::load(&elf, files);
        let removed = match sources.status() {
            DebugStatus::Missing { .. } => Removed::Packed,
            _ if is_executable(&elf) => Removed::Separate(sources.separate_symbols()),
            // A library is known by what it exports: in its other table names carry versions.
            _ => Removed::Lost,
        };
        let code = Code::passing(Arc::clone(&elf), removed, files);
        let sources = sources.with_functions(Arc::clone(code.functions()));
        Ok(Self {
            name: name.to_owned(),
            library: false,
            elf,
            code,
            sources,
            exports: OnceLock::new(),
            objects: OnceLock::new(),
            outlines: Mutex::default(),
        })
    }

    /// What it is called: the path that it was loaded from.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same module as a library: code that is named, not looked into.
    #[must_use]
    pub fn as_library(self) -> Self {
        Self {
            library: true,
            ..self
        }
    }

    /// Whether it is a library: code that is named, not looked into.
    #[must_use]
    pub fn is_library(&self) -> bool {
        self.library
    }

    /// Its ELF structure.
    #[must_use]
    pub fn elf(&self) -> &Elf<'a> {
        &self.elf
    }

    /// Its machine code.
    #[must_use]
    pub fn code(&self) -> &Code<'a> {
        &self.code
    }

    /// Its debug information.
    #[must_use]
    pub fn sources(&self) -> &Sources<'a> {
        &self.sources
    }

    /// Whether debug information was found at all.
    #[must_use]
    pub fn has_debug_information(&self) -> bool {
        !matches!(self.sources.status(), DebugStatus::Missing { .. })
    }

    /// The readable name of the function at an address: from the debug information, else from the symbols.
    #[must_use]
    pub fn name_of_function_at(&self, addr: LinkAddr) -> Option<Arc<str>> {
        let described = self.sources.function_at(addr).and_then(|function| function.name);
        described.or_else(|| {
            let function = self.code.functions().at(addr)?;
            Some(Arc::from(self.code.functions().display_name(function)))
        })
    }

    /// The instruction at an address, as an assembler would print it: all there is to say where no line is
    /// known.
    #[must_use]
    pub fn instruction_text(&self, addr: LinkAddr) -> Option<String> {
        let flow = self.code.flow(self.code.functions().at(addr)?);
        let ix = flow.containing(addr)?;
        let instruction = flow.instruction(ix)?;
        let block = flow.block(flow.block_of(ix)?)?;
        let target = block.exit.target().filter(|_| block.last() == ix);
        let mut text = String::new();
        match target.and_then(|target| self.code.target_name(target)) {
            Some(name) => {
                let mnemonic = format!("{:?}", instruction.mnemonic()).to_lowercase();
                text.push_str(&format!("{mnemonic} {}", crate::code::demangle_path(name)));
            }
            None => FastFormatter::new().format(instruction, &mut text),
        }
        Some(text)
    }

    /// Whether an instruction only enters or leaves its function: frame set-up, the spilling of parameters,
    /// moving the result into place. Compilers give such code the position of the function's braces.
    ///
    /// An optimised function may do real work at those positions, and one without a frame does so from its
    /// first instruction on: whatever calls, branches or touches memory outside the frame is no such code.
    #[must_use]
    pub fn is_entry_or_exit(&self, addr: LinkAddr, line: u32, column: u16) -> bool {
        let Some(function) = self.code.functions().at(addr) else {
            return false;
        };
        let outline = self.outline(function);
        let after = outline.quiet.partition_point(|(start, _)| *start <= addr);
        let quiet = after.checked_sub(1).and_then(|last| outline.quiet.get(last));
        quiet.is_some_and(|(_, end)| addr < *end) && outline.boundaries.contains(&(line, column))
    }

    fn outline(&self, function: FunctionId) -> Arc<Outline> {
        let mut known = self.outlines.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known
            .entry(function)
            .or_insert_with(|| Arc::new(self.find_outline(function)));
        Arc::clone(found)
    }

    fn find_outline(&self, function: FunctionId) -> Outline {
        let entry = self.code.functions().get(function).map(|function| function.entry);
        // Without any columns a line's braces and statements look the same.
        let entry = entry
            .and_then(|entry| self.sources.opening_of(entry))
            .filter(|(_, column)| *column > 0 || self.has_columns(function));
        let mut outline = Outline {
            boundaries: entry.into_iter().collect(),
            quiet: Vec::new(),
        };
        for instruction in self.code.listing(function) {
            let start = LinkAddr(instruction.ip());
            if is_quiet(&instruction) {
                outline.quiet.push((start, LinkAddr(instruction.next_ip())));
            } else if instruction.flow_control() == FlowControl::Return {
                let position = self.outer_frame_at(start).map(|frame| (frame.line, frame.column));
                outline
                    .boundaries
                    .extend(position.filter(|(_, column)| *column > 0));
            }
        }
        outline
    }

    fn outer_frame_at(&self, addr: LinkAddr) -> Option<SourceFrame> {
        let innermost = self.sources.frames_at(addr).into_iter().next();
        innermost.filter(|frame| !frame.inlined)
    }

    fn has_columns(&self, function: FunctionId) -> bool {
        let parts = self.code.functions().parts(function);
        parts
            .iter()
            .any(|part| self.sources.line_rows(part).iter().any(|row| row.column > 0))
    }

    /// Where a function's body starts, for one that is entered at `entry`.
    #[must_use]
    pub fn body_of(&self, entry: LinkAddr) -> LinkAddr {
        self.sources
            .function_at(entry)
            .and_then(|function| function.prologue_end)
            .unwrap_or(entry)
    }

    /// The pointer that a slot holds for good: relocated at start and read-only from then on (the GOT, tables
    /// of constants), so that code which goes through it can be followed.
    #[must_use]
    pub fn constant_pointer(&self, slot: LinkAddr) -> Option<LinkAddr> {
        self.is_constant(slot)
            .then(|| self.elf.pointer_at(slot))
            .flatten()
    }

    fn is_constant(&self, addr: LinkAddr) -> bool {
        let segments = self.elf.segments();
        let protected = segments.headers().iter().any(|header| {
            let start = header.p_vaddr.get(LE);
            header.p_type.get(LE) == PT_GNU_RELRO
                && (start..start.saturating_add(header.p_memsz.get(LE))).contains(&addr.0)
        });
        segments.contains(addr) && (protected || !segments.is_writable(addr))
    }

    /// Whether an address holds data that the program can change while it runs.
    #[must_use]
    pub fn is_variable(&self, addr: LinkAddr) -> bool {
        self.elf.segments().is_writable(addr) && !self.is_constant(addr)
    }

    /// The function that this file offers to others under a name.
    #[must_use]
    pub fn exported(&self, symbol: &str) -> Option<LinkAddr> {
        let exports = self.exports.get_or_init(|| {
            let functions = |kind| matches!(kind, SymbolKind::Function | SymbolKind::IndirectFunction);
            let offered = self
                .elf
                .dynsym()
                .defined()
                .filter(|symbol| functions(symbol.kind));
            offered.map(|symbol| (symbol.name, symbol.addr)).collect()
        });
        exports.get(symbol).copied()
    }

    /// The global object around an address: as the symbols have it, else just the bytes asked for.
    #[must_use]
    pub fn object_around(&self, addr: LinkAddr, width: u32) -> LinkRange {
        self.object_at(addr)
            .unwrap_or_else(|| addr..addr.offset(i64::from(width.max(1))))
    }

    /// The global object around an address, where a symbol names one.
    #[must_use]
    pub fn object_at(&self, addr: LinkAddr) -> Option<LinkRange> {
        self.object(addr).map(|object| object.start..object.end)
    }

    /// Whether the object around an address is known by a name that only one compilation can use.
    pub(crate) fn is_local_object(&self, addr: LinkAddr) -> bool {
        self.object(addr).is_some_and(|object| object.local)
    }

    fn object(&self, addr: LinkAddr) -> Option<Object> {
        let functions = self.code.functions();
        let own = functions.variables();
        let objects = self
            .objects
            .get_or_init(|| Objects::new(own, functions.symbols(), self.elf.dynsym()));
        objects.at(own, addr)
    }
}

/// Whether the system can start the file as a program.
pub(crate) fn is_executable(elf: &Elf<'_>) -> bool {
    elf.interp().is_some() || elf.kind() == ElfKind::Executable
}

fn is_quiet(instr: &Instruction) -> bool {
    let of_frame = |access: &Access| matches!(access.base, Some(Register::RSP | Register::RBP));
    instr.flow_control() == FlowControl::Next && accesses(instr).all(|access| of_frame(&access))
}
