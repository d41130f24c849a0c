//! Prepared statements and portals that the client of a session has opened, and what is told of them.

use std::sync::Arc;

use gnomon_parser::ast::Statement;

use super::{
    StatementDescription,
    portal::{Body, Portals, Unbound},
    prepared::{Prepared, Statements},
    setting::{show_columns, text_column},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Oid, Table},
        system,
    },
    context::{ClientObjects, SessionContext},
    query::{Cursors, ResultColumn},
};

/// The prepared statements and portals of a session. Its context has them too, and shows them in the system catalog.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) statements: Statements,
    pub(super) portals: Portals,
}

impl ClientObjects for Opened {
    fn prepared_statements(&self) -> Vec<system::PreparedStatement> {
        self.statements.describe()
    }

    fn cursors(&self) -> Vec<system::Cursor> {
        self.portals.describe()
    }

    fn reads(&self, relation: Oid) -> bool {
        self.portals.read(relation)
    }
}

impl Cursors for Opened {
    fn current_row(&self, cursor: &str, table: &Table) -> Result<Option<Vec<u8>>> {
        self.portals.current_row(cursor, table)
    }

    fn begin_statement(&self) -> u64 {
        self.portals.begin_statement()
    }

    fn row_left(&self, statement: u64, table: &Table, key: &[u8], new_key: Option<&[u8]>) -> Result<()> {
        self.portals.row_left(statement, table, key, new_key)
    }
}

impl Opened {
    /// Finds the statement that a portal is to run, with so many parameters, and plans it.
    pub(super) fn unbound(
        &self,
        session: &mut SessionContext,
        portal: &str,
        statement: &str,
        parameters: usize,
    ) -> Result<Unbound> {
        let prepared = self.statements.get(statement)?;
        if let Some(statement) = prepared.statement() {
            session.refuse_if_failed(statement)?;
        }
        if !portal.is_empty() {
            self.portals.refuse_taken(portal)?;
        }
        session.ensure_transaction();
        let body = if prepared.parsed.is_none() {
            Body::Empty
        } else if prepared.is_planned() {
            let plan = prepared.plan(session)?;
            Body::Plan { statement: Some(prepared.clone()), plan, running: None }
        } else {
            if prepared.planned_statement().is_some() {
                prepared.plan(session)?;
            }
            Body::Command(prepared.clone())
        };
        let unbound = Unbound { prepared, body };
        let required = unbound.types().len();
        if parameters != required {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                    parameters, unbound.prepared.name, required
                ),
            ));
        }
        Ok(unbound)
    }

    /// Describes a prepared statement: its parameters and columns.
    pub(super) fn describe(
        &self,
        session: &mut SessionContext,
        statement: &Arc<Prepared>,
    ) -> Result<StatementDescription> {
        if statement.is_planned() {
            if let Some(parsed) = &statement.parsed {
                session.refuse_if_failed(&parsed.statement)?;
            }
            let plan = statement.plan(session)?;
            return Ok(StatementDescription {
                parameters: plan.params.clone(),
                columns: plan.columns().map(|columns| columns.to_vec()),
            });
        }
        if statement.planned_statement().is_some() {
            statement.plan(session)?;
        }
        let columns = match statement.statement() {
            Some(statement) => self.command_columns(session, statement)?,
            None => None,
        };
        Ok(StatementDescription { parameters: statement.parameter_types(), columns })
    }

    /// The columns of a portal's result; none if it returns no rows.
    pub(super) fn portal_columns(
        &self,
        session: &mut SessionContext,
        name: &str,
    ) -> Result<Option<Vec<ResultColumn>>> {
        let statement = self.portals.with(name, |portal| match &portal.body {
            Body::Command(statement) => Some(statement.clone()),
            _ => None,
        })?;
        let Some(statement) = statement else {
            return Ok(self.portals.columns(name).map(|columns| columns.to_vec()));
        };
        match statement.statement() {
            Some(statement) => self.command_columns(session, statement),
            None => Ok(None),
        }
    }

    /// The columns that a statement returns without a plan of its own.
    fn command_columns(
        &self,
        session: &mut SessionContext,
        statement: &Statement,
    ) -> Result<Option<Vec<ResultColumn>>> {
        Ok(match statement {
            Statement::Show(name) => Some(show_columns(session, name)?),
            Statement::Explain(_) => Some(vec![text_column("QUERY PLAN")]),
            Statement::Execute(execute) => {
                let statement = self.statements.to_execute(&execute.name.name)?;
                self.describe(session, &statement)?.columns
            }
            Statement::Fetch(fetch) if !fetch.is_move => {
                self.portals.columns(&fetch.cursor.name).map(|columns| columns.to_vec())
            }
            _ => None,
        })
    }
}
