//! Where lines come from: a file, standard input, or a person at a terminal.

use std::{collections::VecDeque, io::BufRead, path::PathBuf};

use gnomon_program::Failure;
use rustyline::{DefaultEditor, error::ReadlineError};

/// The result of reading a line.
pub enum Line {
    /// A line, without its end.
    Text(String),
    /// Ctrl-C: what was typed so far is to be forgotten.
    Canceled,
    /// There is no more.
    End,
}

/// Reads lines.
pub trait Lines {
    /// The next line; a person is asked for it by `prompt`.
    fn next(&mut self, prompt: &str) -> Result<Line, Failure>;
}

/// Lines of a text that was read as a whole.
pub struct TextLines(VecDeque<String>);

impl TextLines {
    pub fn new(text: &str) -> TextLines {
        TextLines(text.lines().map(str::to_owned).collect())
    }
}

impl Lines for TextLines {
    fn next(&mut self, _: &str) -> Result<Line, Failure> {
        Ok(self.0.pop_front().map_or(Line::End, Line::Text))
    }
}

/// Standard input that is no terminal.
pub struct StdinLines;

impl Lines for StdinLines {
    fn next(&mut self, _: &str) -> Result<Line, Failure> {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.map_err(|error| Failure::new("cannot read standard input", error))? == 0 {
            return Ok(Line::End);
        }
        let end = line.trim_end_matches(['\n', '\r']).len();
        line.truncate(end);
        Ok(Line::Text(line))
    }
}

/// Lines that a person edits, with a history.
pub struct EditedLines {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl EditedLines {
    /// The history is kept in the file `.gnomon_history` of the home directory, if there is one.
    pub fn new() -> Result<EditedLines, Failure> {
        let mut editor =
            DefaultEditor::new().map_err(|error| Failure::new("cannot use the terminal", error))?;
        let history = std::env::home_dir().map(|home| home.join(".gnomon_history"));
        if let Some(history) = &history {
            // There is none before the first time.
            let _ = editor.load_history(history);
        }
        Ok(EditedLines { editor, history })
    }

    /// Notes what was typed, to be called up again.
    pub fn remember(&mut self, text: &str) {
        // A history that cannot be kept is no reason to stop.
        let _ = self.editor.add_history_entry(text);
        if let Some(history) = &self.history {
            let _ = self.editor.append_history(history);
        }
    }
}

impl Lines for EditedLines {
    fn next(&mut self, prompt: &str) -> Result<Line, Failure> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Line::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Line::Canceled),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(Failure::new("cannot read from the terminal", error)),
        }
    }
}
