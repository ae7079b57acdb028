//! The contents of a few files of commits that were read or written last, by their ids.
//!
//! The graph of the newest commits is read several times in each attempt, and is large. An id names one
//! content, so nothing here goes out of date.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use git2::Oid;

/// The number of contents.
const COUNT: usize = 8;
/// The largest number of bytes in all of them together.
const BYTES: usize = 32 << 20;

static CACHE: Mutex<BlobCache> = Mutex::new(BlobCache(VecDeque::new()));

fn cache() -> MutexGuard<'static, BlobCache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the content with this id, if it is known.
pub(super) fn get(id: Oid) -> Option<Arc<[u8]>> {
    cache().get(id)
}

/// Keeps a content.
pub(super) fn put(id: Oid, content: &[u8]) {
    cache().put(id, content);
}

/// Contents, the one that was used last at the end.
struct BlobCache(VecDeque<(Oid, Arc<[u8]>)>);

impl BlobCache {
    fn get(&mut self, id: Oid) -> Option<Arc<[u8]>> {
        let at = self.0.iter().position(|(known, _)| *known == id)?;
        let found = self.0.remove(at)?;
        let content = Arc::clone(&found.1);
        self.0.push_back(found);
        Some(content)
    }

    fn put(&mut self, id: Oid, content: &[u8]) {
        if content.len() > BYTES {
            return;
        }
        self.0.retain(|(known, _)| *known != id);
        self.0.push_back((id, content.into()));
        let mut bytes: usize = self.0.iter().map(|(_, content)| content.len()).sum();
        while self.0.len() > COUNT || bytes > BYTES {
            let Some((_, oldest)) = self.0.pop_front() else { break };
            bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use git2::ObjectType;

    use super::*;

    #[test]
    fn the_contents_used_last_stay_within_the_limits() {
        let mut cache = BlobCache(VecDeque::new());
        let id = |bytes: &[u8]| Oid::hash_object(ObjectType::Blob, bytes).unwrap();
        let texts: Vec<Vec<u8>> = (0..=COUNT).map(|number| vec![b'x'; number]).collect();
        for text in &texts {
            cache.put(id(text), text);
            assert_eq!(cache.get(id(&texts[0])).as_deref(), Some(&*texts[0]), "it is in use");
        }
        assert_eq!(cache.get(id(&texts[1])), None);
        assert_eq!(cache.get(id(&texts[2])).as_deref(), Some(&*texts[2]));
        let large = vec![b'y'; BYTES];
        cache.put(id(&large), &large);
        assert_eq!((cache.0.len(), cache.get(id(&texts[2]))), (1, None));
        let larger = [&*large, b"y"].concat();
        cache.put(id(&larger), &larger);
        assert!(cache.get(id(&larger)).is_none() && cache.get(id(&large)).is_some());
    }
}
