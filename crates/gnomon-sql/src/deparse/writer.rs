//! The text under construction: its indent, and the names that its query levels see.

use gnomon_parser::ast::RelationName;

use crate::{
    binder::{Analysis, CatalogView},
    catalog::system::Style,
    functions::quote_ident,
    types::Context,
};

/// Indents are not deepened as fast beyond this one.
const INDENT_LIMIT: usize = 40;

/// Everything that printing reads.
pub struct Surroundings<'a> {
    /// The types of the tree.
    pub analysis: &'a Analysis,
    /// The settings under which values are printed.
    pub context: &'a Context<'a>,
    /// The relations that can be named.
    pub catalog: &'a dyn CatalogView,
}

/// A name that a query level gives to a relation.
pub struct LevelName {
    /// The relation's schema, if it goes by its own name.
    pub schema: Option<String>,
    /// The name by which the tree knows it.
    pub name: String,
    /// The name that is printed, which no level around has.
    pub printed: String,
}

/// The names of a query level.
#[derive(Default)]
pub struct Level {
    /// Those of relations.
    pub relations: Vec<LevelName>,
    /// Those of WITH.
    pub tables: Vec<String>,
}

/// Reads a tree: what its expressions are, and the names of its relations.
pub struct DefinitionReader<'a, 'q> {
    /// Everything that it reads beside the tree.
    pub around: &'q Surroundings<'a>,
    /// The query levels, the innermost last; none for an expression of one table, whose columns stand alone.
    pub levels: Vec<Level>,
}

/// Prints a tree.
pub struct DefinitionWriter<'a, 'q> {
    /// The reader of the tree.
    pub reader: DefinitionReader<'a, 'q>,
    /// The form of the text.
    pub style: Style,
    /// The present indent.
    pub indent: usize,
    out: String,
}

impl<'a, 'q> DefinitionWriter<'a, 'q> {
    /// A writer without text.
    pub fn new(around: &'q Surroundings<'a>, style: Style) -> DefinitionWriter<'a, 'q> {
        DefinitionWriter {
            reader: DefinitionReader { around, levels: Vec::new() },
            style,
            indent: 0,
            out: String::new(),
        }
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.out
    }

    /// Adds text.
    pub fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Adds text that was printed aside.
    pub fn push_aside(&mut self, text: &str) {
        if text.starts_with('\n') {
            self.trim();
        }
        self.push(text);
    }

    /// Adds words on a new line, with the indent changed before and after; `more` indents only this line. Expressions by
    /// themselves are indented too.
    pub fn keyword(&mut self, words: &str, before: isize, after: isize, more: usize) {
        self.indent = self.indent.saturating_add_signed(before);
        let width = match self.indent < INDENT_LIMIT {
            true => self.indent,
            false => (INDENT_LIMIT + (self.indent - INDENT_LIMIT) / 4) % INDENT_LIMIT,
        };
        self.trim();
        self.out.push('\n');
        self.out.push_str(&" ".repeat(width + more));
        self.out.push_str(words);
        self.indent = self.indent.saturating_add_signed(after);
    }

    /// Takes the spaces at the end off.
    pub fn trim(&mut self) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
    }

    /// Returns the length of the present line.
    pub fn line_length(&self) -> usize {
        self.out.rsplit('\n').next().map_or(0, str::len)
    }

    /// Returns what `print` prints, instead of adding it.
    pub fn aside(&mut self, print: impl FnOnce(&mut Self)) -> String {
        let out = std::mem::take(&mut self.out);
        print(self);
        std::mem::replace(&mut self.out, out)
    }

    /// Adds the name of a relation of the catalog, with its schema where it would mean another one without.
    pub fn relation_name(&mut self, relation: &RelationName) {
        let name = &*relation.name.name;
        if let Some(schema) = &relation.schema {
            let is_hidden =
                self.reader.levels.iter().any(|level| level.tables.iter().any(|table| table == name));
            let found = self.reader.around.catalog.relation(None, name).ok().flatten();
            let is_visible = found.is_some_and(|found| found.schema() == &*schema.name);
            if is_hidden || !is_visible {
                self.push(&format!("{}.", quote_ident(&schema.name)));
            }
        }
        self.push(&quote_ident(name));
    }
}

impl DefinitionReader<'_, '_> {
    /// Returns the name under which a relation is printed that goes by `name` in the tree.
    pub fn printed_relation(&self, schema: Option<&str>, name: &str) -> String {
        let mut all = self.levels.iter().rev().flat_map(|level| &level.relations);
        let is_meant = |known: &&LevelName| {
            known.name == name && (schema.is_none() || known.schema.as_deref() == schema)
        };
        all.find(is_meant).map_or_else(|| name.to_owned(), |known| known.printed.clone())
    }

    /// True if a relation goes by this name in the present level or one around it.
    pub fn has_relation(&self, name: &str) -> bool {
        self.levels.iter().flat_map(|level| &level.relations).any(|known| known.name == name)
    }
}
