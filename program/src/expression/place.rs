//! Where the memory is that an expression means.

use thiserror::Error;

use super::parse::{Expression, Step};
use super::similar::similar;
use super::value::Shape;
use crate::addr::{LinkAddr, RunAddr};
use crate::code::demangle_path;
use crate::elf::SymbolKind;
use crate::module::Module;
use crate::scoped;
use crate::source::{Type, TypeKind, VarLocation};

/// Files that an ambiguous name is offered with.
const MOST_OFFERS: usize = 8;

/// A piece of memory, reached from a variable of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the variable is in its module.
    pub base: LinkAddr,
    /// Pointers to follow: each is read this far behind where the way has come to.
    pub follows: Vec<u64>,
    /// How far behind the last pointer's target (or the variable's start) the memory begins.
    pub offset: u64,
    /// How many bytes it has.
    pub size: u64,
    /// What the bytes mean.
    pub shape: Shape,
}

/// Why an expression means nothing in a module.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// No such variable.
    #[error("{module} has no variable `{name}`{hint}")]
    Unknown {
        /// The module.
        module: String,
        /// The name.
        name: String,
        /// What may be the reason, or what may have been meant.
        hint: String,
    },
    /// Several of that name.
    #[error("`{name}` is defined more than once; say which: {offers}")]
    Ambiguous {
        /// The name.
        name: String,
        /// The same name with files.
        offers: String,
    },
    /// Every thread has its own.
    #[error(
        "`{0}` is thread-local: every thread has its own; give the address of one with --addr (in gdb: thread N, print &{0})"
    )]
    ThreadLocal(String),
    /// Optimised away, or computed.
    #[error("`{0}` has no fixed address in this build")]
    NoAddress(String),
    /// A step that the type does not have.
    #[error("`{at}` is of type `{ty}`, which has no {wanted}{hint}")]
    NoSuchStep {
        /// The expression up to there.
        at: String,
        /// Its type.
        ty: String,
        /// What was asked for.
        wanted: String,
        /// What it has instead.
        hint: String,
    },
    /// The type is not known.
    #[error("`{0}` has no type in the debug information: only the variable itself can be watched")]
    NoType(String),
    /// The size is not known, or nothing is there.
    #[error("the size of `{0}` is not known: watch its address with --addr ADDR:LEN")]
    NoSize(String),
}

impl Place {
    /// Finds what an expression means in a module.
    pub fn find(module: &Module<'_>, expression: &Expression) -> Result<Self, PlaceError> {
        let found = module
            .sources()
            .globals_named(expression.file.as_deref(), &expression.name);
        let fixed = |location: &VarLocation| match location {
            VarLocation::Address(addr) => Some(*addr),
            _ => None,
        };
        let mut placed: Vec<_> = found
            .iter()
            .filter_map(|(variable, file)| Some((fixed(&variable.location)?, variable.ty, file)))
            .collect();
        placed.sort_by_key(|&(addr, ty, _)| (addr, ty.is_none()));
        placed.dedup_by_key(|&mut (addr, _, _)| addr);
        match placed.as_slice() {
            [] => match found.first() {
                Some((variable, _)) if matches!(variable.location, VarLocation::Tls(_)) => {
                    Err(PlaceError::ThreadLocal(expression.name.clone()))
                }
                Some(_) => Err(PlaceError::NoAddress(expression.name.clone())),
                None => Self::from_symbol(module, expression),
            },
            &[(base, Some(ty), _)] => {
                Walk::from(base, module.sources().ty(ty), &expression.name).to(expression)
            }
            &[(_, None, _)] => Self::from_symbol(module, expression),
            several => Err(ambiguous(
                &expression.name,
                several.iter().map(|(_, _, file)| file.as_str()),
            )),
        }
    }

    /// Without debug information the symbol table still knows address and size.
    fn from_symbol(module: &Module<'_>, expression: &Expression) -> Result<Self, PlaceError> {
        let name = expression.name.as_str();
        let mut symbols: Vec<_> = module
            .elf()
            .data_symbols()
            .filter(|symbol| {
                symbol.name == name
                    || (symbol.name.starts_with('_') && scoped::is_same(&demangle_path(symbol.name), name))
            })
            .collect();
        symbols.sort_by_key(|symbol| symbol.addr);
        symbols.dedup_by_key(|symbol| symbol.addr);
        let symbol = match symbols.as_slice() {
            _ if expression.file.is_some() => None,
            [] => None,
            [symbol] => Some(symbol),
            several => {
                let offers = several.iter().map(|symbol| format!("--addr {}", symbol.addr));
                return Err(PlaceError::Ambiguous {
                    name: name.to_owned(),
                    offers: offers.take(MOST_OFFERS).collect::<Vec<_>>().join(", "),
                });
            }
        };
        let Some(symbol) = symbol else {
            return Err(unknown(module, expression));
        };
        if symbol.kind == SymbolKind::ThreadLocal {
            return Err(PlaceError::ThreadLocal(name.to_owned()));
        }
        if !expression.steps.is_empty() {
            return Err(PlaceError::NoType(name.to_owned()));
        }
        if symbol.size == 0 {
            return Err(PlaceError::NoSize(name.to_owned()));
        }
        Ok(Self {
            base: symbol.addr,
            follows: Vec::new(),
            offset: 0,
            size: symbol.size,
            shape: Shape::Unsigned,
        })
    }

    /// Where the memory is in a process that has the module loaded `bias` bytes from where it was linked.
    ///
    /// `read` gives the eight bytes at an address. `Err` has the address of the pointer that leads nowhere yet.
    pub fn address(
        &self,
        bias: u64,
        mut read: impl FnMut(RunAddr) -> Option<u64>,
    ) -> Result<RunAddr, RunAddr> {
        let mut at = self.base.0.wrapping_add(bias);
        for follow in &self.follows {
            let pointer = RunAddr(at.wrapping_add(*follow));
            at = read(pointer).filter(|&target| target != 0).ok_or(pointer)?;
        }
        Ok(RunAddr(at.wrapping_add(self.offset)))
    }
}

fn ambiguous<'f>(name: &str, files: impl Iterator<Item = &'f str>) -> PlaceError {
    let offers: Vec<_> = files
        .take(MOST_OFFERS)
        .map(|file| format!("{}:{name}", file.rsplit('/').next().unwrap_or(file)))
        .collect();
    PlaceError::Ambiguous {
        name: name.to_owned(),
        offers: offers.join(", "),
    }
}

/// The way from a variable, as far as it has been gone.
struct Walk<'s, 'a> {
    base: LinkAddr,
    follows: Vec<u64>,
    offset: u64,
    ty: Type<'s, 'a>,
    /// How many dimensions of the array type were indexed already.
    indexed: usize,
    text: String,
}

impl<'s, 'a> Walk<'s, 'a> {
    fn from(base: LinkAddr, ty: Type<'s, 'a>, name: &str) -> Self {
        let mut walk = Self {
            base,
            follows: Vec::new(),
            offset: 0,
            ty: ty.stripped(),
            indexed: 0,
            text: name.to_owned(),
        };
        walk.through_reference();
        walk
    }

    fn to(mut self, expression: &Expression) -> Result<Place, PlaceError> {
        for step in &expression.steps {
            match step {
                Step::Follow => self.follow()?,
                Step::Member(name) => self.member(name)?,
                Step::Element(index) => self.element(*index)?,
            }
        }
        let size = self.size().filter(|&size| size > 0);
        let size = size.ok_or_else(|| PlaceError::NoSize(self.text.clone()))?;
        let shape = self.current().map_or(Shape::Bytes, Shape::of);
        Ok(Place {
            base: self.base,
            follows: self.follows,
            offset: self.offset,
            size,
            shape,
        })
    }

    fn follow(&mut self) -> Result<(), PlaceError> {
        if self.is_array() && !self.dimensions_left().is_empty() {
            return self.element(0);
        }
        let Some(target) = self.current().and_then(Type::pointee) else {
            return Err(self.missing("target to follow: it is no pointer", String::new()));
        };
        self.follows.push(self.offset);
        self.offset = 0;
        self.enter(target);
        self.text = format!("*{}", self.text);
        self.through_reference();
        Ok(())
    }

    fn member(&mut self, name: &str) -> Result<(), PlaceError> {
        if self.current().is_some_and(|ty| ty.kind() == TypeKind::Pointer) {
            let before = self.text.clone();
            self.follow()?;
            self.text = before;
        }
        let Some(ty) = self.current() else {
            return Err(self.missing(&format!("member `{name}`"), String::new()));
        };
        let Some((offset, member)) = member_of(ty, name, 0) else {
            let names: Vec<String> = ty
                .members()
                .into_iter()
                .filter_map(|member| Some(member.name?.to_string()))
                .take(MOST_OFFERS)
                .collect();
            let hint = if names.is_empty() {
                String::new()
            } else {
                format!(" (it has {})", names.join(", "))
            };
            return Err(self.missing(&format!("member `{name}`"), hint));
        };
        self.offset = self.offset.wrapping_add(offset);
        self.enter(member);
        self.text = format!("{}.{name}", self.text);
        self.through_reference();
        Ok(())
    }

    fn element(&mut self, index: u64) -> Result<(), PlaceError> {
        let left = self.dimensions_left();
        if self.is_array()
            && let Some((first, inner)) = left.split_first()
        {
            if first.is_some_and(|count| index >= count) {
                return Err(self.missing(
                    &format!("element {index}"),
                    format!(" (it has {})", first.unwrap_or(0)),
                ));
            }
            let one = inner.iter().try_fold(
                self.ty.element().and_then(Type::size).unwrap_or(0),
                |size, count| size.checked_mul((*count)?),
            );
            let Some(step) = one.and_then(|one| one.checked_mul(index)) else {
                return Err(PlaceError::NoSize(self.text.clone()));
            };
            self.offset = self.offset.wrapping_add(step);
            self.indexed += 1;
        } else {
            let before = self.text.clone();
            self.follow()?;
            self.text = before;
            let size = self.size().ok_or_else(|| PlaceError::NoSize(self.text.clone()))?;
            self.offset = self.offset.wrapping_add(size.wrapping_mul(index));
        }
        self.text = format!("{}[{index}]", self.text);
        Ok(())
    }

    /// The type at this point: of an array whose dimensions are all indexed, its element's.
    fn current(&self) -> Option<Type<'s, 'a>> {
        if !self.is_array() {
            return Some(self.ty);
        }
        self.dimensions_left()
            .is_empty()
            .then(|| self.ty.element().map(Type::stripped))?
    }

    fn enter(&mut self, ty: Type<'s, 'a>) {
        self.ty = ty.stripped();
        self.indexed = 0;
    }

    /// A reference is written like what it refers to.
    fn through_reference(&mut self) {
        if let Some(ty) = self.current()
            && ty.kind() == TypeKind::Reference
            && let Some(target) = ty.pointee()
        {
            self.follows.push(self.offset);
            self.offset = 0;
            self.enter(target);
        }
    }

    fn is_array(&self) -> bool {
        matches!(self.ty.kind(), TypeKind::Array { .. })
    }

    fn dimensions_left(&self) -> Vec<Option<u64>> {
        self.ty
            .dimensions()
            .split_off(self.indexed.min(self.ty.dimensions().len()))
    }

    fn size(&self) -> Option<u64> {
        if !self.is_array() {
            return self.ty.size();
        }
        let element = self.ty.element()?.size()?;
        self.dimensions_left()
            .into_iter()
            .try_fold(element, |size, count| size.checked_mul(count?))
    }

    fn missing(&self, wanted: &str, hint: String) -> PlaceError {
        PlaceError::NoSuchStep {
            at: self.text.clone(),
            ty: self.ty.name(),
            wanted: wanted.to_owned(),
            hint,
        }
    }
}

fn unknown(module: &Module<'_>, expression: &Expression) -> PlaceError {
    let name = expression.name.as_str();
    let meant = similar(module, name);
    let hint = if !meant.is_empty() {
        let quoted: Vec<String> = meant.iter().map(|known| format!("`{known}`")).collect();
        format!("; there is {}", quoted.join(", "))
    } else if module.has_debug_information() {
        String::new()
    } else {
        " (it has no debug information: only global symbols are known)".to_owned()
    };
    PlaceError::Unknown {
        module: module.name().to_owned(),
        name: match &expression.file {
            Some(file) => format!("{file}:{name}"),
            None => name.to_owned(),
        },
        hint,
    }
}

/// Anonymous structures and base classes in one another: real ones are shallow, a cycle has no end.
const DEEPEST_MEMBER: usize = 16;

/// A member by name, also of anonymous parts and base classes; Rust's tuple fields by number.
fn member_of<'s, 'a>(ty: Type<'s, 'a>, name: &str, depth: usize) -> Option<(u64, Type<'s, 'a>)> {
    if depth > DEEPEST_MEMBER {
        return None;
    }
    let sources = ty.sources();
    let tuple_field = name
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| format!("__{name}"));
    let members = ty.members();
    let named = members.iter().find(|member| {
        member
            .name
            .as_deref()
            .is_some_and(|known| known == name || Some(known) == tuple_field.as_deref())
    });
    if let Some(member) = named {
        return Some((member.offset, sources.ty(member.ty)));
    }
    members
        .iter()
        .filter(|member| member.name.is_none())
        .find_map(|member| {
            let (offset, found) = member_of(sources.ty(member.ty), name, depth + 1)?;
            Some((member.offset.checked_add(offset)?, found))
        })
}
