//! Questions to a person on the terminal. The only user of dialoguer.
//!
//! Ctrl-C, Esc and a closed terminal all mean no.

use std::sync::{
    Arc,
    atomic::{AtomicI32, Ordering},
};

use anyhow::Result;
use dialoguer::{Confirm, Input, MultiSelect, Select, theme::ColorfulTheme};

use super::{fit, show_cursor, stderr_width, visible};
use crate::core::exit::{Exit, Failure};

/// SIGINT.
pub const INTERRUPT: i32 = 2;

/// The questions of a command.
pub struct Questions {
    theme: ColorfulTheme,
    /// The last signal; at first [`INTERRUPT`].
    signal: Arc<AtomicI32>,
}

impl Default for Questions {
    fn default() -> Questions {
        Questions::new()
    }
}

impl Questions {
    /// The questions of a command.
    #[must_use]
    pub fn new() -> Questions {
        Questions::ended_by(Arc::new(AtomicI32::new(INTERRUPT)))
    }

    /// The questions of a command that keeps the last signal here: it ends a question, not the program.
    #[must_use]
    pub fn ended_by(signal: Arc<AtomicI32>) -> Questions {
        Questions { theme: ColorfulTheme::default(), signal }
    }

    /// Asks a yes/no question.
    ///
    /// # Errors
    /// No answer.
    pub fn is_wanted(&self, question: &str, default: bool) -> Result<bool> {
        let asked = Confirm::with_theme(&self.theme).with_prompt(question).default(default);
        self.answer(asked.interact_opt())
    }

    /// Asks for a text, which may be empty.
    ///
    /// # Errors
    /// No answer.
    pub fn text(
        &self,
        question: &str,
        check: impl Fn(&String) -> Result<(), &'static str>,
    ) -> Result<String> {
        let asked = Input::<String>::with_theme(&self.theme)
            .with_prompt(question)
            .allow_empty(true)
            .validate_with(check);
        Ok(self.answer(asked.interact_text().map(Some))?.trim().to_owned())
    }

    /// Asks for one of several. Returns its place.
    ///
    /// # Errors
    /// No answer.
    pub fn choice(&self, question: &str, items: &[String], default: usize) -> Result<usize> {
        let items: Vec<String> = items.iter().map(|item| fitted(item)).collect();
        let asked = Select::with_theme(&self.theme).with_prompt(question);
        self.answer(asked.items(&items).default(default).interact_opt())
    }

    /// Asks which of several are wanted; `is_default` are those at first. Returns their places.
    ///
    /// # Errors
    /// No answer.
    pub fn choices(
        &self,
        question: &str,
        items: &[String],
        is_default: impl Fn(usize) -> bool,
    ) -> Result<Vec<usize>> {
        let items = items.iter().enumerate().map(|(at, item)| (fitted(item), is_default(at)));
        let asked = MultiSelect::with_theme(&self.theme).with_prompt(question);
        self.answer(asked.items_checked(items).interact_opt())
    }

    /// The error for a declined question.
    #[must_use]
    pub fn declined(&self) -> anyhow::Error {
        let exit = Exit::Signal(self.signal.load(Ordering::Relaxed));
        Failure::drawn(exit, "\ncancelled; nothing was written".to_owned()).into()
    }

    /// The answer, or the error for no answer.
    fn answer<T>(&self, asked: dialoguer::Result<Option<T>>) -> Result<T> {
        asked.ok().flatten().ok_or_else(|| {
            show_cursor();
            self.declined()
        })
    }
}

/// Text cut to one line, with room for the prefix and the answer.
#[must_use]
pub fn fitted(text: &str) -> String {
    let width = stderr_width().unwrap_or(80).saturating_sub(12);
    fit(&visible(text), width).into_owned()
}
