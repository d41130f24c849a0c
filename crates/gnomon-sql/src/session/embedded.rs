//! Statements of programs in this process, which give parameters as values.

use super::Session;
use crate::{
    Result,
    context::State,
    sink::Sink,
    types::{
        ColumnType, Context, Datum, Type,
        cast::{self, CastContext},
        text,
    },
};

impl Session {
    /// Runs one statement with values for its parameters `$1`, `$2`, ..., which no quoting is needed for.
    ///
    /// A parameter has the type that the statement gives it. A value of another type is cast to it as INSERT casts to
    /// the type of a column; a text is read as a literal of that type, so that every value can be given as its text.
    ///
    /// Outside of a transaction block the statement is a transaction, which is durable when this returns. The
    /// statement takes the place of the unnamed prepared statement and portal.
    ///
    /// ```
    /// use gnomon_sql::session::{Rows, SessionOptions, SqlDatabase};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let database = SqlDatabase::open(gnomon_engine::Database::in_memory(gnomon_engine::Options::default())?)?;
    /// let mut session = database.session(SessionOptions::default())?;
    /// let mut result = Rows::default();
    /// session.execute("CREATE TABLE people (id bigint PRIMARY KEY, name text, born date)", &mut result)?;
    /// let insert = "INSERT INTO people VALUES ($1, $2, $3)";
    /// session.execute_with(insert, &[1.into(), "O'Hara".into(), "1900-02-28".into()], &mut result)?;
    /// assert_eq!(result.tag, "INSERT 0 1");
    /// session.execute_with("SELECT name, born FROM people WHERE id = $1", &[1.into()], &mut result)?;
    /// assert_eq!(result.rows[0][0].as_str(), Some("O'Hara"));
    /// assert_eq!(result.texts[0][1].as_deref(), Some("1900-02-28"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// 42601 for more than one statement, 08P01 for another number of values than of parameters, 42846 for a value that
    /// has no cast to its parameter's type, and those of the statement.
    pub fn execute_with(&mut self, sql: &str, parameters: &[Datum], sink: &mut dyn Sink) -> Result<()> {
        self.close_portal("");
        self.note_statement(sql);
        let result = match self.context.current.state {
            State::Idle => {
                self.run_until_first(sink, |session, sink| session.execute_bound(sql, parameters, sink))
            }
            _ => self.execute_bound(sql, parameters, sink),
        };
        if result.is_err() {
            self.fail();
        }
        self.close_portal("");
        self.close_statement("");
        self.note_rest();
        result
    }

    fn execute_bound(&mut self, sql: &str, parameters: &[Datum], sink: &mut dyn Sink) -> Result<()> {
        self.prepare_text("", sql, &[])?;
        let alarm = self.context.start_statement()?;
        let unbound = self.opened.unbound(&mut self.context, "", "", parameters.len())?;
        let mut params = Vec::with_capacity(parameters.len());
        if !parameters.is_empty() {
            let scope = self.context.binding_scope();
            let context = &scope.types();
            for (value, ty) in parameters.iter().zip(&*unbound.types()) {
                params.push(fit(context, value, *ty)?);
            }
        }
        self.context.interrupt.check()?;
        self.opened.portals.open(&self.context, "", unbound, params)?;
        drop(alarm);
        // Other commands tell the sink themselves.
        if let Some(columns) = self.opened.portals.columns("") {
            sink.columns(&columns)?;
        }
        self.run_portal("", 0, sink)?;
        self.sync()
    }
}

/// A value as the type that a statement has for it.
fn fit(context: &Context<'_>, value: &Datum, ty: Type) -> Result<Datum> {
    let target = ColumnType { ty, modifier: -1 };
    if let Datum::Text(text) = value {
        return text::input(context, text, target);
    }
    let from = value.natural_type();
    if !cast::can_cast(from, ty, CastContext::Assignment) {
        return Err(cast::cannot_cast(from, ty));
    }
    cast::cast(context, value.clone(), from, target, CastContext::Assignment)
}
