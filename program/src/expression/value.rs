//! Bytes of memory as what their type says they are.

use crate::source::{Encoding, Type, TypeKind};

/// A wrapper in a wrapper in a wrapper: `std::atomic`, Rust's cells. A cycle has no end.
const DEEPEST_WRAPPER: usize = 16;

/// What the bytes of a place mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A signed number.
    Signed,
    /// An unsigned number.
    Unsigned,
    /// A truth value.
    Bool,
    /// A character.
    Character,
    /// A floating-point number.
    Float,
    /// A pointer.
    Pointer,
    /// An enumeration, with the names of its values.
    Enum(Vec<(i128, String)>),
    /// Nothing that fits into a number.
    Bytes,
}

/// A value read from memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A number.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// An address.
    Pointer(u64),
    /// A number that has a name.
    Named(i128, String),
    /// Bytes, first one first.
    Bytes(Vec<u8>),
}

impl Shape {
    /// What values of a type are.
    #[must_use]
    pub fn of(ty: Type<'_, '_>) -> Self {
        Self::inside(ty, 0)
    }

    fn inside(ty: Type<'_, '_>, depth: usize) -> Self {
        let ty = ty.stripped();
        match ty.kind() {
            TypeKind::Base { encoding } => match encoding {
                Encoding::Bool => Self::Bool,
                Encoding::Signed => Self::Signed,
                Encoding::SignedChar | Encoding::UnsignedChar => Self::Character,
                Encoding::Float => Self::Float,
                Encoding::Unsigned | Encoding::Other => Self::Unsigned,
            },
            TypeKind::Pointer | TypeKind::Reference => Self::Pointer,
            TypeKind::Enum => Self::Enum(ty.enumerators()),
            TypeKind::Struct if depth < DEEPEST_WRAPPER => {
                let whole = ty.size();
                let members = ty.members();
                let sized: Vec<_> = members
                    .iter()
                    .map(|member| (member, ty.sources().ty(member.ty)))
                    .filter(|(_, inner)| inner.size() != Some(0))
                    .collect();
                match sized.as_slice() {
                    [(member, inner)] if member.offset == 0 && inner.size() == whole => {
                        Self::inside(*inner, depth + 1)
                    }
                    _ => Self::Bytes,
                }
            }
            _ => Self::Bytes,
        }
    }

    /// Reads a value of this shape.
    #[must_use]
    pub fn read(&self, bytes: &[u8]) -> Reading {
        let mut wide = [0; 8];
        let Some(low) = wide.get_mut(..bytes.len()) else {
            return Reading::Bytes(bytes.to_vec());
        };
        low.copy_from_slice(bytes);
        let unsigned = u64::from_le_bytes(wide);
        let unused = 64 - 8 * u32::try_from(bytes.len()).unwrap_or(8);
        let signed = || (unsigned.unbounded_shl(unused) as i64).unbounded_shr(unused);
        match self {
            Self::Signed => Reading::Integer(signed().into()),
            Self::Unsigned | Self::Bool | Self::Character => Reading::Integer(unsigned.into()),
            Self::Pointer => Reading::Pointer(unsigned),
            Self::Float => match *bytes {
                [a, b, c, d] => Reading::Float(f32::from_le_bytes([a, b, c, d]).into()),
                [_, _, _, _, _, _, _, _] => Reading::Float(f64::from_bits(unsigned)),
                _ => Reading::Bytes(bytes.to_vec()),
            },
            Self::Enum(names) => {
                let fits = |value: i128| names.iter().find(|(known, _)| *known == value);
                match fits(unsigned.into()).or_else(|| fits(signed().into())) {
                    Some((value, name)) => Reading::Named(*value, name.clone()),
                    None => Reading::Integer(unsigned.into()),
                }
            }
            Self::Bytes => Reading::Bytes(bytes.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_at_every_width() {
        assert_eq!(Shape::Signed.read(&[0xff]), Reading::Integer(-1));
        assert_eq!(Shape::Signed.read(&[0xfe, 0xff]), Reading::Integer(-2));
        assert_eq!(Shape::Signed.read(&(-5i64).to_le_bytes()), Reading::Integer(-5));
        assert_eq!(
            Shape::Unsigned.read(&[0xff; 8]),
            Reading::Integer(u64::MAX.into())
        );
        assert_eq!(Shape::Unsigned.read(&[]), Reading::Integer(0));
        assert_eq!(Shape::Signed.read(&[]), Reading::Integer(0));
        assert_eq!(Shape::Float.read(&1.5f32.to_le_bytes()), Reading::Float(1.5));
        assert_eq!(Shape::Float.read(&2.5f64.to_le_bytes()), Reading::Float(2.5));
        assert_eq!(Shape::Pointer.read(&16u64.to_le_bytes()), Reading::Pointer(16));
    }

    #[test]
    fn what_does_not_fit_a_number_stays_bytes() {
        assert_eq!(Shape::Signed.read(&[1; 16]), Reading::Bytes(vec![1; 16]));
        assert_eq!(Shape::Bytes.read(&[1, 2]), Reading::Bytes(vec![1, 2]));
        assert_eq!(Shape::Float.read(&[1, 2]), Reading::Bytes(vec![1, 2]));
    }

    #[test]
    fn an_enumeration_knows_its_names_signed_or_not() {
        let shape = Shape::Enum(vec![(-1, "FAILED".to_owned()), (2, "DONE".to_owned())]);
        assert_eq!(
            shape.read(&2u32.to_le_bytes()),
            Reading::Named(2, "DONE".to_owned())
        );
        assert_eq!(
            shape.read(&(-1i32).to_le_bytes()),
            Reading::Named(-1, "FAILED".to_owned())
        );
        assert_eq!(shape.read(&9u32.to_le_bytes()), Reading::Integer(9));
    }
}
