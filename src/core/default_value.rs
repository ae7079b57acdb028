//! Values that are left out of files, because reading a file without them gives the same.

/// Whether a field has its default value; for `skip_serializing_if`.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
