//! The names of an enum's variants, as serde reads and writes them.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, value::StrDeserializer},
};

/// Returns the names of all variants of `T`, in the order of the enum. Empty if `T` is no enum.
pub fn names<T: Deserialize<'static>>() -> &'static [&'static str] {
    match T::deserialize(NamesOnly) {
        Err(Names(names)) => names,
        Ok(_) => &[],
    }
}

/// Returns all variants of an enum whose variants have no fields, in its order.
pub fn all<T: Deserialize<'static>>() -> Vec<T> {
    let named = |name: &&'static str| T::deserialize(StrDeserializer::<Names>::new(name)).ok();
    names::<T>().iter().filter_map(named).collect()
}

/// Fails with the names that a derived `Deserialize` asks for.
struct NamesOnly;

#[derive(Debug)]
struct Names(&'static [&'static str]);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only the names of the variants were asked for")
    }
}

impl std::error::Error for Names {}

impl de::Error for Names {
    fn custom<T: fmt::Display>(_message: T) -> Names {
        Names(&[])
    }
}

impl<'de> Deserializer<'de> for NamesOnly {
    type Error = Names;

    fn deserialize_any<V: de::Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Names> {
        Err(Names(&[]))
    }

    fn deserialize_enum<V: de::Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Names> {
        Err(Names(variants))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::task::{CommitRule, TaskId};

    #[test]
    fn names_are_those_of_serde() {
        assert_eq!(names::<CommitRule>(), ["required", "optional"]);
        assert_eq!(names::<TaskId>(), [""; 0]);
    }
}
