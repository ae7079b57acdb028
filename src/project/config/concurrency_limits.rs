//! Limits on the attempts at the same time, by agent or by tag.

use std::{collections::BTreeMap, num::NonZeroU32};

use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::Value;

/// The most attempts that run at the same time with an agent, or at tasks with a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConcurrencyLimits(pub BTreeMap<String, NonZeroU32>);

impl<'de> Deserialize<'de> for ConcurrencyLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConcurrencyLimits, D::Error> {
        let Value::Object(given) = Value::deserialize(deserializer)? else {
            return Err(D::Error::custom("it must be a mapping such as `{claude: 3, db: 1}`"));
        };
        let limit = |(name, value): (String, Value)| {
            let limit = serde_json::from_value(value);
            let fault = || D::Error::custom(format!("`{name}` must be a whole number from 1"));
            limit.map_err(|_| fault()).map(|limit| (name.clone(), limit))
        };
        given.into_iter().map(limit).collect::<Result<_, _>>().map(ConcurrencyLimits)
    }
}
