//! The variables in scope at an address.

use super::budget::Budget;
use super::children::Children;
use super::location::{Context, MOST_ENTRIES};
use super::units::Die;
use super::{Sources, VarLocation, Variable, VariableKind};
use crate::addr::LinkAddr;

impl Sources<'_> {
    /// The parameters and locals in scope, innermost block first, with their place at that address. Those
    /// of inlined functions come with the number of their frame in [`Sources::frames_at`].
    #[must_use]
    pub fn variables_at(&self, addr: LinkAddr) -> Vec<Variable> {
        let Some((unit, function)) = self.find_function(addr) else {
            return Vec::new();
        };
        let body = self.body_of(unit, function);
        let chain: Vec<u32> = body.inlined_at(addr).map(|(number, _)| number).collect();
        let entries = Budget::new(MOST_ENTRIES);
        let context = Context {
            unit,
            function: Some(function),
            at: Some((addr, &entries)),
        };
        let variables = body.variables_at(addr).into_iter().filter_map(|found| {
            let frame = match found.inlined {
                None => chain.len(),
                Some(inlined) => chain.iter().rev().position(|number| *number == inlined)?,
            };
            let die = Die {
                unit: unit.id,
                offset: found.die,
            };
            let name = self.plain_name(die)?;
            // A static of an inlined function has its address on the abstract instance.
            let location = self.inherited(die, |owner, entry| {
                let context = Context {
                    unit: owner,
                    ..context
                };
                self.location(entry, &context)
            });
            let location = location.map_or(VarLocation::Unavailable, |(_, location)| location);
            let kind = match location {
                _ if found.is_parameter => VariableKind::Parameter,
                VarLocation::Address(_) | VarLocation::Tls(_) => VariableKind::Static,
                _ => VariableKind::Local,
            };
            Some(Variable {
                name,
                kind,
                ty: self.type_of(die),
                location,
                frame,
            })
        });
        let mut variables: Vec<_> = variables.collect();
        let inlined = body.inlined_at(addr).map(|(_, inlined)| inlined.die);
        let chain: Vec<_> = std::iter::once(function.die).chain(inlined).collect();
        for (frame, offset) in chain.into_iter().rev().enumerate() {
            self.add_statics(
                Die {
                    unit: unit.id,
                    offset,
                },
                frame,
                &entries,
                &mut variables,
            );
        }
        variables
    }

    /// The locals of the function around an address, and of none that was inlined into it, that are in registers there: the
    /// register, by DWARF's number, and the line of the declaration.
    #[must_use]
    pub fn locals_in_registers(&self, addr: LinkAddr) -> Vec<(u16, u32)> {
        let Some((unit, function)) = self.find_function(addr) else {
            return Vec::new();
        };
        let entries = Budget::new(MOST_ENTRIES);
        let context = Context {
            unit,
            function: Some(function),
            at: Some((addr, &entries)),
        };
        let in_scope = self.body_of(unit, function).variables_at(addr).into_iter();
        let own = in_scope.filter(|found| found.inlined.is_none() && !found.is_parameter);
        let found = own.filter_map(|found| {
            let die = Die {
                unit: unit.id,
                offset: found.die,
            };
            let (_, entry) = self.entry(die)?;
            match self.location(&entry, &context)? {
                VarLocation::Register(register) => Some((register, self.naming(die).decl_line)),
                _ => None,
            }
        });
        found.filter(|(_, line)| *line > 0).collect()
    }

    /// gcc describes the statics of an inlined function in its abstract instance only.
    fn add_statics(&self, instance: Die, frame: usize, entries: &Budget, variables: &mut Vec<Variable>) {
        let origin = self
            .entry(instance)
            .and_then(|(unit, entry)| self.origin(unit, &entry));
        let Some((origin, unit)) = origin.and_then(|die| Some((die, self.unit(die.unit)?))) else {
            return;
        };
        let Some(mut children) = Children::of(unit, origin.offset) else {
            return;
        };
        while entries.spend(1)
            && let Some((depth, entry)) = children.next()
        {
            match entry.tag() {
                gimli::DW_TAG_lexical_block => children.enter(depth),
                gimli::DW_TAG_variable if entry.has_attr(gimli::DW_AT_location) => {
                    let context = Context::fixed(unit);
                    let die = Die {
                        unit: unit.id,
                        offset: entry.offset(),
                    };
                    let Some(location @ (VarLocation::Address(_) | VarLocation::Tls(_))) =
                        self.location(&entry, &context)
                    else {
                        continue;
                    };
                    let Some(name) = self.plain_name(die) else {
                        continue;
                    };
                    let known =
                        |variable: &Variable| variable.frame == frame && variable.location == location;
                    if !variables.iter().any(known) {
                        let kind = VariableKind::Static;
                        variables.push(Variable {
                            name,
                            kind,
                            ty: self.type_of(die),
                            location,
                            frame,
                        });
                    }
                }
                _ => {}
            }
        }
    }
}
