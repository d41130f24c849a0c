//! The expressions of CHECKs, as they are kept: columns have no names of the table before them, and the row of the table
//! is `name.*`. So the text outlives another name of the table, and holds for its partitions.

use std::ops::ControlFlow;

use gnomon_parser::{
    Position,
    ast::{self, Access, ColumnReference, Ident, Indirection},
    visit::{Visitor, VisitorMut},
};

use crate::{
    Result, SqlError,
    catalog::model::Table,
    syntax::{expression_text, parse_expression},
};

/// Returns an expression over a table as it is kept of a CHECK.
///
/// # Errors
/// 0A000 for the row of the table as a field of ROW, where `name.*` stands for its columns.
pub(super) fn with_bare_columns(expr: &ast::Expr, table: &Table) -> Result<ast::Expr> {
    let mut bare = expr.clone();
    match BareColumns(table).visit_expr(&mut bare) {
        ControlFlow::Continue(()) => Ok(bare),
        ControlFlow::Break(position) => {
            Err(SqlError::unsupported("a CHECK with the row of its table as a field of ROW").at(position))
        }
    }
}

struct BareColumns<'t>(&'t Table);

impl BareColumns<'_> {
    fn is_of_table(&self, qualifier: &[Ident]) -> bool {
        let is = |part: &Ident, name: &str| *part.name == *name;
        match qualifier {
            [name] => is(name, &self.0.name),
            [.., schema, name] => is(name, &self.0.name) && is(schema, &self.0.schema),
            [] => false,
        }
    }

    /// True for the row of the table.
    fn is_row(&self, column: &ColumnReference) -> bool {
        match &column.fields[..] {
            [name] if !column.has_star => {
                self.0.column(&name.name).is_none() && self.is_of_table(&column.fields)
            }
            fields => column.has_star && self.is_of_table(fields),
        }
    }

    fn row(&self, position: Position) -> ColumnReference {
        ColumnReference { fields: vec![Ident::new(&self.0.name)], has_star: true, position }
    }

    /// Returns the column that `(row).field` is, with what follows that.
    fn field_of_row(&self, parts: &Indirection) -> Option<ast::Expr> {
        let (ast::Expr::Column(column), [Access::Field(field), rest @ ..]) = (&parts.base, &parts.path[..])
        else {
            return None;
        };
        if !self.is_row(column) || self.0.column(&field.name).is_none() {
            return None;
        }
        let fields = vec![field.clone()];
        let base = ast::Expr::Column(ColumnReference { fields, has_star: false, position: column.position });
        Some(match rest {
            [] => base,
            rest => ast::Expr::Indirection(Box::new(Indirection { base, path: rest.to_vec() })),
        })
    }

    /// Writes out the stars among the fields of ROW.
    fn expand(&self, fields: &mut Vec<ast::Expr>) -> ControlFlow<Position> {
        for field in std::mem::take(fields) {
            let row = match &field {
                ast::Expr::Column(column) if self.is_row(column) => {
                    if !column.has_star {
                        return ControlFlow::Break(column.position);
                    }
                    Some(column)
                }
                ast::Expr::Indirection(parts) => match (&parts.base, &parts.path[..]) {
                    (ast::Expr::Column(column), [Access::Star]) if self.is_row(column) => Some(column),
                    _ => None,
                },
                _ => None,
            };
            let Some(ColumnReference { position, .. }) = row else {
                fields.push(field);
                continue;
            };
            fields.extend(self.0.live_columns().map(|(_, column)| {
                let fields = vec![Ident::new(&column.name)];
                ast::Expr::Column(ColumnReference { fields, has_star: false, position: *position })
            }));
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for BareColumns<'_> {
    type Break = Position;

    fn visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Position> {
        match expr {
            ast::Expr::Row(row) => self.expand(&mut row.fields)?,
            ast::Expr::Indirection(parts) => {
                if let Some(field) = self.field_of_row(parts) {
                    *expr = field;
                }
            }
            ast::Expr::Column(column) if self.is_row(column) => *column = self.row(column.position),
            ast::Expr::Column(column) if !column.has_star => {
                if let Some((name, qualifier)) = column.fields.split_last()
                    && self.is_of_table(qualifier)
                    && self.0.column(&name.name).is_some()
                {
                    column.fields = vec![name.clone()];
                }
            }
            _ => {}
        }
        self.walk_expr(expr)
    }
}

/// The name of a column in an expression, without the relation that may stand in front.
fn column_name(expr: &ast::Expr) -> Option<&Ident> {
    match expr {
        ast::Expr::Column(column) if !column.has_star => column.fields.last(),
        _ => None,
    }
}

/// True if a stored expression names a column.
pub(super) fn names_column(text: &str, column: &str) -> Result<bool> {
    struct Find<'n>(&'n str);
    impl Visitor for Find<'_> {
        type Break = ();
        fn visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match column_name(expr).is_some_and(|name| *name.name == *self.0) {
                true => ControlFlow::Break(()),
                false => self.walk_expr(expr),
            }
        }
    }
    Ok(Find(column).visit_expr(&parse_expression(text)?).is_break())
}

/// True if an expression names the row of its table.
pub(super) fn names_row(expr: &ast::Expr) -> bool {
    struct Find;
    impl Visitor for Find {
        type Break = ();
        fn visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match expr {
                ast::Expr::Column(ColumnReference { has_star: true, .. }) => ControlFlow::Break(()),
                expr => self.walk_expr(expr),
            }
        }
    }
    Find.visit_expr(expr).is_break()
}

/// Returns the text of an expression with a column renamed.
pub(super) fn rename_in(mut expr: ast::Expr, from: &str, to: &str) -> Result<String> {
    struct Replace<'n>(&'n str, &'n str);
    impl VisitorMut for Replace<'_> {
        type Break = ();
        fn visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Column(column) = expr
                && !column.has_star
                && let Some(name) = column.fields.last_mut().filter(|name| *name.name == *self.0)
            {
                name.name = self.1.into();
            }
            self.walk_expr(expr)
        }
    }
    let _: ControlFlow<()> = Replace(from, to).visit_expr(&mut expr);
    expression_text(&expr)
}
