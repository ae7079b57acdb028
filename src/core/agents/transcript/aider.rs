//! aider prints text only, and exits with code 0 even after provider errors. Its error lines start
//! with `litellm.`, and a successful turn ends with `Tokens:`, so these lines are its result. An
//! answer that quotes such an error is followed by a `Tokens:` line.

use super::{AgentTranscript, FinalResult, Tokens, text};

/// The end of the text so far, and the error since the last successful turn.
#[derive(Debug, Default)]
pub(super) struct AiderReader {
    text: text::TextReader,
    error: Option<String>,
}

impl AiderReader {
    pub fn line(&mut self, transcript: &mut AgentTranscript, line: &[u8]) {
        self.text.take(transcript, line);
        self.text.take(transcript, b"\n");
        let line = String::from_utf8_lossy(line);
        if let Some(rest) = line.strip_prefix("litellm.") {
            let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
            if name.ends_with("Error") || name.ends_with("Exception") || name == "Timeout" {
                self.error = Some(text::short(&line));
            }
        } else if let Some(tokens) = tokens(&line) {
            self.error = None;
            transcript.add_tokens(tokens);
            transcript.begin_turn();
        }
    }

    pub fn finish(&mut self, transcript: &mut AgentTranscript) {
        self.text.finish(transcript);
        if let Some(text) = self.error.take() {
            let name = text["litellm.".len()..].split([':', ' ']).next().unwrap_or_default();
            let codes = vec![name.to_owned()];
            transcript.finish_with(FinalResult {
                text,
                is_error: true,
                codes,
                ..FinalResult::default()
            });
        }
    }
}

/// `Tokens: 1.2k sent, 9 received.`
fn tokens(line: &str) -> Option<Tokens> {
    let number = |word: &str| -> Option<u64> {
        let (digits, unit) = match word.strip_suffix('k') {
            Some(digits) => (digits, 1000.0),
            None => (word, 1.0),
        };
        let number = digits.parse::<f64>().ok().filter(|number| (0.0..1e12).contains(number))?;
        #[expect(clippy::cast_sign_loss, reason = "checked above to be non-negative")]
        Some((number * unit) as u64)
    };
    let rest = line.strip_prefix("Tokens: ")?;
    let (sent, rest) = rest.split_once(" sent, ")?;
    // With a cache: `3k sent, 2k cache write, 1k cache hit, 300 received.`
    let received = rest.split(", ").find_map(|part| part.split_once(" received"))?.0;
    Some(Tokens { input: number(sent)?, output: number(received)?, ..Tokens::default() })
}
