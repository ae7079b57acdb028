//! Secrets in any text: the same is removed from it in one part and in two.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::redact::Redactor;

fn redacted(secrets: &Redactor, parts: &[&[u8]]) -> Vec<u8> {
    let (mut secrets, mut out) = (secrets.clone(), Vec::new());
    parts.iter().for_each(|part| secrets.push(part, &mut out));
    secrets.finish(&mut out);
    out
}

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (length, at, bytes) = input;
    // Longer values only take longer to search for.
    let value = &bytes[..usize::from(length % 24).min(bytes.len())];
    let secrets = Redactor::new([value]);
    let (first, second) = bytes.split_at(usize::from(at).min(bytes.len()));
    assert_eq!(redacted(&secrets, &[bytes]), redacted(&secrets, &[first, second]));
});
