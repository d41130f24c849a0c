//! Scripts in the form of pgbench: statements of SQL, variables and backslash commands.
//!
//! A script is read once into a list of commands; `\if` becomes jumps. Variables stand for values, not for text: a
//! statement that can have parameters is prepared with `$1`, `$2`, ... in their places, as drivers do and pgbench does
//! by `-M prepared`. In others (SET, DDL) their text is put there. What stands in quotes or comments is no variable.
//!
//! Promises: pgbench's built-in scripts are read unchanged. What is not understood or not supported is refused with its
//! line before anything runs, and so is a variable that is not set, where the order of lines tells.
//!
//! Not done here: shell commands, pipelines, several statements in one (`\;`).

use std::{collections::BTreeSet, fmt, time::Duration};

use gnomon_sql::split::{Item, Splitter, unquoted};

use super::{
    expression::{DEFAULT_SEED, Expression, Names, Variables, name_length, undefined},
    value::Value,
};

/// Variables that every script has: see [`Script::variables`].
const PRESET: [&str; 4] = ["client_id", "default_seed", "random_seed", "scale"];

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its name in messages: its file.
    pub(super) name: String,
    /// As it was read.
    pub(super) text: String,
    /// Its commands, in their order.
    pub(super) commands: Vec<Command>,
    /// Its variables.
    pub(super) names: Names,
    /// Those that were set by the command line.
    defined: Vec<(usize, Value)>,
}

/// A command and its line, from 1.
#[derive(Clone, Debug)]
pub struct Command {
    /// Where it begins.
    pub line: usize,
    /// Its action.
    pub action: Action,
}

/// The action of a command.
#[derive(Clone, Debug)]
pub enum Action {
    /// Runs a statement.
    Run(Statement),
    /// Sets a variable.
    Set(usize, Expression),
    /// Sleeps.
    Sleep(Pause),
    /// Goes on with the command of a number unless a condition is met.
    JumpUnless(Expression, usize),
    /// Goes on with the command of a number.
    Jump(usize),
}

/// A statement of SQL.
#[derive(Clone, Debug)]
pub struct Statement {
    pieces: Vec<Piece>,
    /// True if variables are parameters of it.
    pub is_prepared: bool,
    /// The use of its rows.
    pub kept: Option<Kept>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Variable(usize),
}

/// A row that is kept in variables, which have the names of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The beginning of their names.
    pub prefix: String,
    /// True if there must be one row; otherwise the last one counts, if there is one.
    pub is_one: bool,
}

/// How long to sleep.
#[derive(Clone, Debug)]
pub struct Pause {
    amount: Amount,
    /// Microseconds.
    unit_us: u64,
}

#[derive(Clone, Debug)]
enum Amount {
    Number(u64),
    Variable(usize),
}

impl Pause {
    /// How long that is.
    ///
    /// # Errors
    /// A variable that is not set, or no positive integer.
    pub fn duration(&self, names: &Names, variables: &Variables) -> Result<Duration, String> {
        let amount = match self.amount {
            Amount::Number(number) => number,
            Amount::Variable(number) => {
                let value = variables[number].as_ref().ok_or_else(|| undefined(names.name(number)))?;
                let amount = value.read().and_then(|value| value.as_int());
                amount.ok().and_then(|amount| u64::try_from(amount).ok()).ok_or_else(|| {
                    format!(
                        "\\sleep takes an integer that is not negative, and {} is {value}",
                        names.name(number)
                    )
                })?
            }
        };
        Ok(Duration::from_micros(amount.saturating_mul(self.unit_us)))
    }
}

impl Statement {
    /// With its variables as parameters.
    pub fn parameterized(&self) -> String {
        let mut count = 0;
        self.written(|_| {
            count += 1;
            format!("${count}")
        })
    }

    /// With what its variables are set to.
    ///
    /// # Errors
    /// A variable that is not set.
    pub fn filled(&self, names: &Names, variables: &Variables) -> Result<String, String> {
        for number in self.variables() {
            variables[number].as_ref().ok_or_else(|| undefined(names.name(number)))?;
        }
        Ok(self.written(|number| variables[number].as_ref().map_or_else(String::new, Value::to_string)))
    }

    /// As it stands in the script.
    pub fn source(&self, names: &Names) -> String {
        self.written(|number| format!(":{}", names.name(number)))
    }

    /// The variables in it, one for each place.
    pub fn variables(&self) -> impl Iterator<Item = usize> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Variable(number) => Some(*number),
        })
    }

    /// Its words in lower case, up to so many: what kind of statement it is.
    pub fn words(&self, count: usize) -> Vec<String> {
        let text = self.written(|_| "?".into());
        let plain: Vec<&str> = unquoted(&text).into_iter().map(|part| &text[part]).collect();
        let plain = plain.join(" ");
        let words = plain.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '?'));
        words.filter(|word| !word.is_empty()).take(count).map(str::to_ascii_lowercase).collect()
    }

    /// Its text, with something for each variable.
    pub fn written(&self, mut variable: impl FnMut(usize) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Variable(number) => variable(*number),
        };
        self.pieces.iter().map(piece).collect()
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_one { "\\gset" } else { "\\aset" })
    }
}

impl Script {
    /// Reads a script that messages call `name`, with the variables that the command line defines.
    ///
    /// # Errors
    /// What is not understood, not supported or not set, with the script's name and the line.
    pub fn parse(name: &str, text: &str, defined: &[(String, String)]) -> Result<Script, String> {
        let mut reader = Reader::new(defined);
        let read = reader.script(text);
        read.map_err(|(line, error)| format!("{name}:{line}: {error}"))?;
        if !reader.commands.iter().any(|command| matches!(command.action, Action::Run(_))) {
            return Err(format!("{name}: there is no statement in it, so there is nothing to measure"));
        }
        let Reader { commands, names, defined, .. } = reader;
        Ok(Script { name: name.to_owned(), text: text.to_owned(), commands, names, defined })
    }

    /// Its statements.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.commands.iter().filter_map(|command| match &command.action {
            Action::Run(statement) => Some(statement),
            _ => None,
        })
    }

    /// The definitions of the command line: names and values.
    pub fn defined(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.defined.iter().map(|(number, value)| (self.names.name(*number), value))
    }

    /// The variables that a client has at the beginning.
    pub fn variables(&self, client: usize, seed: u64, scale: u32) -> Variables {
        let mut variables: Variables = vec![None; self.names.count()];
        let preset = [client as i64, default_seed(seed), seed as i64, i64::from(scale)];
        for (name, value) in PRESET.into_iter().zip(preset) {
            if let Some(number) = self.names.find(name) {
                variables[number] = Some(Value::Int(value));
            }
        }
        for (number, value) in &self.defined {
            variables[*number] = Some(value.clone());
        }
        variables
    }
}

/// The seed of a run's hashes and permutations, the same for all clients.
fn default_seed(seed: u64) -> i64 {
    gnomon_engine::env::Rng::from_seed(seed).next_u64() as i64
}

/// An error and its line.
type Read<T> = Result<T, (usize, String)>;

struct Reader {
    commands: Vec<Command>,
    names: Names,
    defined: Vec<(usize, Value)>,
    /// Variables that are set when the script comes to the present line.
    set: BTreeSet<usize>,
    /// True if a query sets variables whose names are not known.
    sets_others: bool,
    /// Conditional blocks that are open, the innermost last.
    blocks: Vec<Block>,
}

/// A conditional block.
struct Block {
    line: usize,
    /// The jump over the present branch, unless it is the last one.
    over: Option<usize>,
    /// The jumps from the ends of branches to the end of the block.
    to_end: Vec<usize>,
}

impl Reader {
    fn new(defined: &[(String, String)]) -> Reader {
        let mut names = Names::new();
        debug_assert_eq!(names.name(DEFAULT_SEED), PRESET[1]);
        let mut set: BTreeSet<usize> = PRESET.into_iter().map(|name| names.number(name)).collect();
        let define = |(name, value): &(String, String)| (names.number(name), Value::Text(value.clone()));
        let defined: Vec<(usize, Value)> = defined.iter().map(define).collect();
        set.extend(defined.iter().map(|(number, _)| *number));
        Reader { commands: Vec::new(), names, defined, set, sets_others: false, blocks: Vec::new() }
    }

    fn script(&mut self, text: &str) -> Read<()> {
        let mut splitter = Splitter::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            for item in splitter.line(line) {
                match item {
                    Item::Statement { text, line } => self.statement(&text, line, None)?,
                    Item::Command { mut text, line } => {
                        while let Some(begun) = text.strip_suffix('\\') {
                            splitter.skip_line();
                            text = format!("{begun} {}", lines.next().unwrap_or_default().trim());
                        }
                        // It ends the statement before it.
                        self.command(splitter.finish(), &text, line)?;
                    }
                }
            }
        }
        if let Some(Item::Statement { text, line }) = splitter.finish() {
            self.statement(&text, line, None)?;
        }
        match self.blocks.last() {
            Some(block) => Err((block.line, "\\if has no \\endif".into())),
            None => Ok(()),
        }
    }

    fn statement(&mut self, text: &str, line: usize, kept: Option<Kept>) -> Read<()> {
        let text = text.strip_suffix(';').unwrap_or(text).trim_end();
        if text.is_empty() {
            return Ok(());
        }
        let mut statement = Statement { pieces: Vec::new(), is_prepared: true, kept };
        let mut written = 0;
        for (at, length) in variables_in(text) {
            statement.pieces.push(Piece::Text(text[written..at].to_owned()));
            statement.pieces.push(Piece::Variable(self.names.number(&text[at + 1..at + length])));
            written = at + length;
        }
        statement.pieces.push(Piece::Text(text[written..].to_owned()));
        let used: Vec<usize> = statement.variables().collect();
        const WITH_PARAMETERS: [&str; 8] =
            ["select", "insert", "update", "delete", "values", "with", "table", "call"];
        // A comment is none.
        let Some(first) = statement.words(1).pop() else { return Ok(()) };
        statement.is_prepared = used.is_empty() || WITH_PARAMETERS.contains(&first.as_str());
        self.use_variables(used, line)?;
        self.sets_others |= statement.kept.is_some();
        self.push(line, Action::Run(statement));
        Ok(())
    }

    /// A backslash command, and the statement that it ends.
    fn command(&mut self, ended: Option<Item>, text: &str, line: usize) -> Read<()> {
        let (command, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let argument = argument.trim();
        let at = |error: String| (line, format!("\\{command}: {error}"));
        let kept = match command {
            "gset" | "aset" => {
                if name_length(argument) != argument.len() && !argument.is_empty() {
                    return Err(at(format!("'{argument}' is not what the name of a variable begins with")));
                }
                Some(Kept { prefix: argument.to_owned(), is_one: command == "gset" })
            }
            _ => None,
        };
        match ended {
            Some(Item::Statement { text, line }) => self.statement(&text, line, kept.clone())?,
            _ if kept.is_some() => return Err(at("it ends a query, in place of a semicolon".into())),
            _ => {}
        }
        if kept.is_some() {
            return Ok(());
        }
        match command {
            "set" => {
                let length = name_length(argument);
                let (name, expression) = argument.split_at(length);
                if length == 0 || !expression.starts_with(char::is_whitespace) {
                    return Err(at("write \\set NAME EXPRESSION".into()));
                }
                let expression = self.expression(expression, line).map_err(|(_, error)| at(error))?;
                let number = self.names.number(name);
                self.set.insert(number);
                self.push(line, Action::Set(number, expression));
            }
            "sleep" => {
                let pause = self.pause(argument).map_err(at)?;
                if let Amount::Variable(number) = pause.amount {
                    self.use_variables([number], line)?;
                }
                self.push(line, Action::Sleep(pause));
            }
            "if" => {
                let over = self.branch(argument, line).map_err(|(_, error)| at(error))?;
                self.blocks.push(Block { line, over: Some(over), to_end: Vec::new() });
            }
            "elif" | "else" => {
                if command == "else" && !argument.is_empty() {
                    return Err(at(format!("'{argument}' is not expected behind it")));
                }
                let Some(over) = self.blocks.last_mut().and_then(|block| block.over.take()) else {
                    return Err(at("there is no \\if before it, or an \\else".into()));
                };
                let jump = self.push(line, Action::Jump(0));
                self.land(over);
                let over = match command {
                    "elif" => Some(self.branch(argument, line).map_err(|(_, error)| at(error))?),
                    _ => None,
                };
                if let Some(block) = self.blocks.last_mut() {
                    block.to_end.push(jump);
                    block.over = over;
                }
            }
            "endif" => {
                let Some(block) = self.blocks.pop() else {
                    return Err(at("there is no \\if before it".into()));
                };
                block.to_end.into_iter().chain(block.over).for_each(|jump| self.land(jump));
            }
            "shell" | "setshell" => {
                return Err(at("shell commands are not run here: compute values by \\set, or in SQL".into()));
            }
            "startpipeline" | "endpipeline" | "syncpipeline" => {
                return Err(at("there are no pipelines here: remove the command, each statement waits for \
                               the one before"
                    .into()));
            }
            _ if text.starts_with(';') => {
                return Err((line, "\\; is not supported: end each statement with a semicolon".into()));
            }
            _ => {
                let known = "\\set, \\if, \\elif, \\else, \\endif, \\sleep, \\gset and \\aset";
                return Err((line, format!("there is no command \\{command}: there are {known}")));
            }
        }
        Ok(())
    }

    fn pause(&mut self, argument: &str) -> Result<Pause, String> {
        let mut words = argument.split_whitespace();
        let (amount, unit, more) = (words.next(), words.next(), words.next());
        let amount = match (amount, more) {
            (Some(amount), None) => match amount.strip_prefix(':') {
                Some(name) if !name.is_empty() && name_length(name) == name.len() => {
                    Some(Amount::Variable(self.names.number(name)))
                }
                _ => amount.parse().ok().map(Amount::Number),
            },
            _ => None,
        };
        let unit_us = match unit.map(str::to_ascii_lowercase).as_deref() {
            None | Some("s") => Some(1_000_000),
            Some("ms") => Some(1_000),
            Some("us") => Some(1),
            Some(_) => None,
        };
        amount
            .zip(unit_us)
            .map(|(amount, unit_us)| Pause { amount, unit_us })
            .ok_or_else(|| "write \\sleep NUMBER, or NUMBER us, ms or s".into())
    }

    /// Begins a branch with a condition: returns the jump over it.
    fn branch(&mut self, condition: &str, line: usize) -> Read<usize> {
        let condition = self.expression(condition, line)?;
        Ok(self.push(line, Action::JumpUnless(condition, 0)))
    }

    fn expression(&mut self, text: &str, line: usize) -> Read<Expression> {
        let expression = Expression::parse(text, &mut self.names).map_err(|error| (line, error))?;
        self.use_variables(expression.variables(), line)?;
        Ok(expression)
    }

    /// Refuses variables that are not set when the script comes there for the first time. Within a conditional block,
    /// and behind a query that sets some, that is seen when it does.
    fn use_variables(&self, used: impl IntoIterator<Item = usize>, line: usize) -> Read<()> {
        if self.sets_others || !self.blocks.is_empty() {
            return Ok(());
        }
        match used.into_iter().find(|number| !self.set.contains(number)) {
            Some(number) => Err((line, undefined(self.names.name(number)))),
            None => Ok(()),
        }
    }

    fn push(&mut self, line: usize, action: Action) -> usize {
        self.commands.push(Command { line, action });
        self.commands.len() - 1
    }

    /// Sets the target of a jump to the next command.
    fn land(&mut self, jump: usize) {
        let next = self.commands.len();
        match &mut self.commands[jump].action {
            Action::Jump(to) | Action::JumpUnless(_, to) => *to = next,
            Action::Run(_) | Action::Set(..) | Action::Sleep(_) => {}
        }
    }
}

/// Where a statement has variables: their places and lengths in bytes, with the colon.
fn variables_in(statement: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for part in unquoted(statement) {
        let mut at = part.start;
        while let Some(more) = statement[at..part.end].find(':') {
            at += more;
            let rest = &statement[at..part.end];
            let colons = rest.len() - rest.trim_start_matches(':').len();
            let length = name_length(&rest[colons..]);
            // Two colons are a cast.
            if colons == 1 && length > 0 {
                found.push((at, 1 + length));
            }
            at += colons + length;
        }
    }
    found
}

#[cfg(test)]
mod tests;
