//! Types: kinds, names, sizes, what they are made from.

use gimli::{AttributeValue, UnitOffset};

use super::children::Children;
use super::units::{Entry, Unit};
use super::{Sources, TypeId};

/// Typedefs of typedefs of const types: real chains are short, a cycle has no end.
const LONGEST_CHAIN: usize = 64;
const DEEPEST_NAME: usize = 16;

/// A look at a type.
#[derive(Clone, Copy)]
pub struct Type<'s, 'a> {
    pub(super) sources: &'s Sources<'a>,
    pub(super) id: TypeId,
}

/// What kind of type it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// A number, a character, a truth value.
    Base {
        /// How its bytes are read.
        encoding: Encoding,
    },
    /// A pointer.
    Pointer,
    /// A C++ reference.
    Reference,
    /// A structure or class.
    Struct,
    /// A union.
    Union,
    /// An array.
    Array {
        /// How many elements, when known.
        count: Option<u64>,
    },
    /// An enumeration.
    Enum,
    /// A function.
    Function,
    /// Another name for a type.
    Typedef,
    /// A type with `const`, `volatile`, `_Atomic` or the like.
    Qualified,
    /// Anything else.
    Other,
}

/// How the bytes of a number are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A truth value.
    Bool,
    /// A signed number.
    Signed,
    /// An unsigned number.
    Unsigned,
    /// A signed character.
    SignedChar,
    /// An unsigned character or a code point.
    UnsignedChar,
    /// A floating-point number.
    Float,
    /// Anything else.
    Other,
}

impl<'a> Sources<'a> {
    /// A look at a type.
    #[must_use]
    pub fn ty(&self, id: TypeId) -> Type<'_, 'a> {
        Type { sources: self, id }
    }
}

impl<'s, 'a> Type<'s, 'a> {
    /// The plain number of the type.
    #[must_use]
    pub fn id(&self) -> TypeId {
        self.id
    }

    /// The debug information that the type is in.
    pub(crate) fn sources(&self) -> &'s Sources<'a> {
        self.sources
    }

    pub(super) fn read(&self) -> Option<(&'s Unit<'a>, Entry<'a>)> {
        self.sources.entry(self.id.0)
    }

    /// Whether it is Rust's: what another language calls `core` is its own.
    pub(crate) fn is_rust(&self) -> bool {
        self.read().is_some_and(|(unit, _)| unit.is_rust)
    }

    pub(super) fn inner(&self, unit: &Unit<'a>, entry: &Entry<'a>) -> Option<Self> {
        let die = self
            .sources
            .follow(unit.id, &entry.attr_value(gimli::DW_AT_type)?)?;
        Some(self.sources.ty(TypeId(die)))
    }

    /// What kind of type this is, typedefs and qualifiers not yet looked through.
    #[must_use]
    pub fn kind(&self) -> TypeKind {
        let Some((unit, entry)) = self.read() else {
            return TypeKind::Other;
        };
        match entry.tag() {
            gimli::DW_TAG_base_type | gimli::DW_TAG_unspecified_type => TypeKind::Base {
                encoding: encoding(&entry),
            },
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_ptr_to_member_type => TypeKind::Pointer,
            gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => TypeKind::Reference,
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_interface_type => {
                TypeKind::Struct
            }
            gimli::DW_TAG_union_type => TypeKind::Union,
            gimli::DW_TAG_array_type => {
                let dimensions = dimensions(unit, entry.offset());
                TypeKind::Array {
                    count: product(&dimensions),
                }
            }
            gimli::DW_TAG_enumeration_type => TypeKind::Enum,
            gimli::DW_TAG_subroutine_type => TypeKind::Function,
            gimli::DW_TAG_typedef | gimli::DW_TAG_template_alias => TypeKind::Typedef,
            tag if qualifier(tag).is_some() => TypeKind::Qualified,
            _ => TypeKind::Other,
        }
    }

    /// The type without typedefs and qualifiers; a declaration is replaced by its definition where a type
    /// unit has it.
    #[must_use]
    pub fn stripped(self) -> Self {
        let mut ty = self;
        for _ in 0..LONGEST_CHAIN {
            let Some((unit, entry)) = ty.read() else { return ty };
            let next = match ty.kind() {
                TypeKind::Typedef | TypeKind::Qualified => ty.inner(unit, &entry),
                _ => entry
                    .attr_value(gimli::DW_AT_signature)
                    .and_then(|value| self.sources.follow(unit.id, &value))
                    .map(|die| self.sources.ty(TypeId(die))),
            };
            match next {
                Some(next) => ty = next,
                None => return ty,
            }
        }
        ty
    }

    /// What a pointer or reference points to (after [`Type::stripped`]).
    #[must_use]
    pub fn pointee(self) -> Option<Self> {
        let ty = self.stripped();
        let (unit, entry) = ty.read()?;
        matches!(ty.kind(), TypeKind::Pointer | TypeKind::Reference).then(|| ty.inner(unit, &entry))?
    }

    /// The type of an array's elements (after [`Type::stripped`]); of the innermost ones for an array of
    /// several dimensions.
    #[must_use]
    pub fn element(self) -> Option<Self> {
        let ty = self.stripped();
        let (unit, entry) = ty.read()?;
        (entry.tag() == gimli::DW_TAG_array_type).then(|| ty.inner(unit, &entry))?
    }

    /// The lengths of an array's dimensions, outermost first; `None` for an open one.
    #[must_use]
    pub fn dimensions(self) -> Vec<Option<u64>> {
        match self.stripped().read() {
            Some((unit, entry)) if entry.tag() == gimli::DW_TAG_array_type => {
                dimensions(unit, entry.offset())
            }
            _ => Vec::new(),
        }
    }

    /// The size in bytes, when known.
    #[must_use]
    pub fn size(self) -> Option<u64> {
        let mut ty = self;
        let mut count = 1u64;
        for _ in 0..LONGEST_CHAIN {
            ty = ty.stripped();
            let (unit, entry) = ty.read()?;
            if let Some(size) = entry.attr_value(gimli::DW_AT_byte_size) {
                return size.udata_value()?.checked_mul(count);
            }
            match ty.kind() {
                TypeKind::Pointer | TypeKind::Reference => {
                    return u64::from(unit.gimli.header.address_size()).checked_mul(count);
                }
                TypeKind::Array { count: length } => {
                    count = count.checked_mul(length?)?;
                    ty = ty.element()?;
                }
                TypeKind::Enum => ty = ty.inner(unit, &entry)?,
                _ => return None,
            }
        }
        None
    }

    /// The values of an enumeration that have names (after [`Type::stripped`]), in order.
    #[must_use]
    pub fn enumerators(self) -> Vec<(i128, String)> {
        let ty = self.stripped();
        let Some((unit, mut children)) = ty
            .read()
            .and_then(|(unit, entry)| Some((unit, Children::of(unit, entry.offset())?)))
        else {
            return Vec::new();
        };
        let mut named = Vec::new();
        while let Some((_, child)) = children.next() {
            if child.tag() != gimli::DW_TAG_enumerator {
                continue;
            }
            let number = child.attr_value(gimli::DW_AT_const_value).and_then(|value| {
                let unsigned = || value.udata_value().map(i128::from);
                value.sdata_value().map(i128::from).or_else(unsigned)
            });
            let name = child
                .attr_value(gimli::DW_AT_name)
                .and_then(|value| self.sources.text(unit, value));
            named.extend(number.zip(name.map(|name| name.into_owned())));
        }
        named
    }

    /// The name as a programmer writes it: `const ns::Node *`, `int [3]`.
    #[must_use]
    pub fn name(&self) -> String {
        self.name_to(DEEPEST_NAME)
    }

    fn name_to(&self, depth: usize) -> String {
        let Some((unit, entry)) = self.read() else {
            return "?".to_owned();
        };
        let Some(depth) = depth.checked_sub(1) else {
            return "…".to_owned();
        };
        if let Some(name) = entry
            .attr_value(gimli::DW_AT_name)
            .and_then(|value| self.sources.text(unit, value))
        {
            return self.sources.qualified(self.id.0, &name);
        }
        let inner = || match self.inner(unit, &entry) {
            Some(inner) => inner.name_to(depth),
            None => "void".to_owned(),
        };
        match entry.tag() {
            gimli::DW_TAG_pointer_type => format!("{} *", inner()),
            gimli::DW_TAG_reference_type => format!("{} &", inner()),
            gimli::DW_TAG_rvalue_reference_type => format!("{} &&", inner()),
            gimli::DW_TAG_array_type => {
                let lengths = dimensions(unit, entry.offset());
                let lengths = lengths
                    .iter()
                    .map(|length| length.map_or("[]".to_owned(), |n| format!("[{n}]")));
                format!("{} {}", inner(), lengths.collect::<String>())
            }
            gimli::DW_TAG_subroutine_type => format!("{} (…)", inner()),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                match entry.attr_value(gimli::DW_AT_signature) {
                    Some(_) => self.stripped().name_to(depth),
                    None => "(anonymous struct)".to_owned(),
                }
            }
            gimli::DW_TAG_union_type => "(anonymous union)".to_owned(),
            gimli::DW_TAG_enumeration_type => "(anonymous enum)".to_owned(),
            tag => match qualifier(tag) {
                Some(word) => format!("{word}{}", inner()),
                None => "?".to_owned(),
            },
        }
    }
}

fn qualifier(tag: gimli::DwTag) -> Option<&'static str> {
    match tag {
        gimli::DW_TAG_const_type => Some("const "),
        gimli::DW_TAG_volatile_type => Some("volatile "),
        gimli::DW_TAG_atomic_type => Some("_Atomic "),
        gimli::DW_TAG_restrict_type | gimli::DW_TAG_immutable_type | gimli::DW_TAG_packed_type => Some(""),
        gimli::DW_TAG_shared_type => Some("shared "),
        _ => None,
    }
}

fn encoding(entry: &Entry<'_>) -> Encoding {
    match entry.attr_value(gimli::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) => match encoding {
            gimli::DW_ATE_boolean => Encoding::Bool,
            gimli::DW_ATE_signed => Encoding::Signed,
            gimli::DW_ATE_unsigned | gimli::DW_ATE_address => Encoding::Unsigned,
            gimli::DW_ATE_signed_char => Encoding::SignedChar,
            gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF => Encoding::UnsignedChar,
            gimli::DW_ATE_float => Encoding::Float,
            _ => Encoding::Other,
        },
        _ => Encoding::Other,
    }
}

fn product(dimensions: &[Option<u64>]) -> Option<u64> {
    dimensions
        .iter()
        .try_fold(1u64, |total, length| total.checked_mul((*length)?))
}

fn dimensions(unit: &Unit<'_>, array: UnitOffset) -> Vec<Option<u64>> {
    let mut lengths = Vec::new();
    let Some(mut children) = Children::of(unit, array) else {
        return lengths;
    };
    while let Some((_, child)) = children.next() {
        if !matches!(
            child.tag(),
            gimli::DW_TAG_subrange_type | gimli::DW_TAG_enumeration_type
        ) {
            continue;
        }
        let number = |name| child.attr_value(name).and_then(|value| value.udata_value());
        let count = number(gimli::DW_AT_count);
        let lower = number(gimli::DW_AT_lower_bound).unwrap_or(0);
        let upper = number(gimli::DW_AT_upper_bound);
        // gcc writes an open array as one with the upper bound -1, or without bounds.
        let spanned = upper.and_then(|upper| upper.checked_sub(lower)?.checked_add(1));
        lengths.push(count.or(spanned));
    }
    lengths
}
