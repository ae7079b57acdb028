//! The events of a run, as written to the journal. Every view is computed from them.
//!
//! Events are in groups, one enum each. The file of a group has its events, `history/effect` has
//! their effects, `view/lines` has their words, and `docs/journal.md` and `event/journal.jsonl`
//! have a row and a sample line for each action. `record` defines the format of a line. This module
//! does no I/O and reads no clock.

pub mod record;
mod attempt;
mod child;
mod ended;
mod graph;
mod landing;
mod request;
mod run;
mod schedule;
mod side_agent;
mod stop;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, value::MapAccessDeserializer},
};

use crate::variants;
pub use attempt::{AgentChange, AgentEnd, AttemptEvent, CheckEvent, CheckoutRestored};
pub use child::{ChildrenLeft, Identity, Orphans};
pub use ended::AttemptResult;
pub use graph::{Cause, DraftCall, GraphEvent, Harm};
pub use landing::{
    Batch, ExecutorEvent, Held, LandingEvent, TakenBack, TipFault, TipRed, WaitingWork,
};
pub use request::{Answer, RequestEvent, StopRequest};
pub use run::{Begun, Blocker, PlainLoop, RunEvent};
pub use schedule::{Hindrance, Hook, HookFailed, ScheduleEvent, Slept, WakeTrigger, Woken};
pub use side_agent::{ReviewEnd, ReviewWait};
pub use stop::StopReason;

/// The version of the journal format, which the first line of every run contains.
pub const SCHEMA: u32 = 1;

macro_rules! groups {
    ($($group:ident($events:ident),)*) => {
        /// An event. Its name in snake case is the `action` of the line.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Event {
            /// An attempt ended.
            Ended(#[serde(serialize_with = "ended::write")] AttemptResult),
            $(#[doc = concat!("An event of the group [`", stringify!($events), "`].")]
            $group($events),)*
        }

        $(impl From<$events> for Event {
            fn from(event: $events) -> Event {
                Event::$group(event)
            }
        })*

        impl Event {
            /// Returns the names of all actions, group by group.
            pub fn actions() -> Vec<&'static str> {
                [&ended::ACTIONS, $(variants::names::<$events>()),*].concat()
            }

            /// Reads the event with this action from the rest of its line; none if the action is
            /// unknown.
            fn read<'de, M: MapAccess<'de>>(
                action: &str,
                fields: M,
            ) -> Option<Result<Event, M::Error>> {
                if ended::ACTIONS.contains(&action) {
                    let ended = AttemptResult::deserialize(MapAccessDeserializer::new(fields));
                    return Some(ended.map(Event::Ended));
                }
                $(if variants::names::<$events>().contains(&action) {
                    let event = $events::deserialize(Tagged { action, fields });
                    return Some(event.map(Event::$group));
                })*
                None
            }
        }
    };
}

groups! {
    Check(CheckEvent),
    Attempt(AttemptEvent),
    Graph(GraphEvent),
    Landing(LandingEvent),
    Run(RunEvent),
    Request(RequestEvent),
    Executor(ExecutorEvent),
    Schedule(ScheduleEvent),
}

impl From<AttemptResult> for Event {
    fn from(ended: AttemptResult) -> Event {
        Event::Ended(ended)
    }
}

impl Event {
    /// The result of an attempt, if the event is the end of one.
    pub fn ended(&self) -> Option<&AttemptResult> {
        if let Event::Ended(ended) = self { Some(ended) } else { None }
    }
}

/// Presents `action` and the rest of the line as an externally tagged enum, which serde derives.
struct Tagged<'a, M> {
    action: &'a str,
    fields: M,
}

impl<'de, M: MapAccess<'de>> Deserializer<'de> for Tagged<'_, M> {
    type Error = M::Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, M::Error> {
        visitor.visit_enum(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

impl<'de, M: MapAccess<'de>> de::EnumAccess<'de> for Tagged<'_, M> {
    type Error = M::Error;
    type Variant = RecordFields<M>;

    fn variant_seed<S: de::DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, RecordFields<M>), M::Error> {
        let tag = de::value::StrDeserializer::new(self.action);
        Ok((seed.deserialize(tag)?, RecordFields(self.fields)))
    }
}

struct RecordFields<M>(M);

impl<'de, M: MapAccess<'de>> de::VariantAccess<'de> for RecordFields<M> {
    type Error = M::Error;

    fn unit_variant(self) -> Result<(), M::Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: de::DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<S::Value, M::Error> {
        seed.deserialize(MapAccessDeserializer::new(self.0))
    }

    fn tuple_variant<V: de::Visitor<'de>>(
        self,
        _len: usize,
        _visitor: V,
    ) -> Result<V::Value, M::Error> {
        Err(de::Error::custom("an event has named fields"))
    }

    fn struct_variant<V: de::Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, M::Error> {
        visitor.visit_map(self.0)
    }
}
