//! Literals of expressions that are kept as text: what the settings of a session make of them is fixed there.
//!
//! A literal that stands for a relation because of its place is made one that says so (see `syntax/kept.rs`).
//!
//! A literal of unknown type becomes a value where its place gives it a type, by the DateStyle, IntervalStyle, TimeZone
//! and time of that moment. A kept text is read again under other settings, so such a literal is put into the form that
//! every session reads as the same value.

use std::{collections::HashMap, ops::ControlFlow, ptr};

use gnomon_parser::{
    ast::{Constant, Expr, Query, Value},
    visit::VisitorMut,
};

use crate::{
    Result,
    syntax::{is_relation_literal, relation_literal},
    types::{Context, Datum, Type, text},
};

/// The literals of a syntax tree, and their fixed forms.
///
/// They are known by their place in memory: the tree stays where it is until they are written into it.
#[derive(Default)]
pub struct Literals {
    /// In the order of binding; a literal has its number as the modifier of its type until it has another type.
    bound: Vec<*const Constant>,
    fixed: HashMap<*const Constant, FixedLiteral>,
}

enum FixedLiteral {
    /// A text in place of the given one.
    Text { given: Box<str>, fixed: Box<str> },
    /// A relation.
    Relation,
}

/// True if the text of a value of this type depends on settings.
fn depends_on_settings(ty: Type) -> bool {
    use Type::{Date, Interval, Time, Timestamp, Timestamptz};
    matches!(ty.element().unwrap_or(ty), Date | Time | Timestamp | Timestamptz | Interval)
}

impl Literals {
    /// Returns the number of a literal.
    pub fn number(&mut self, literal: &Constant) -> i32 {
        self.bound.push(ptr::from_ref(literal));
        i32::try_from(self.bound.len() - 1).unwrap_or(-1)
    }

    /// Notes the value that a literal has become.
    pub fn fix(
        &mut self,
        number: i32,
        given: &str,
        value: &Datum,
        ty: Type,
        context: &Context<'_>,
    ) -> Result<()> {
        let literal = usize::try_from(number).ok().and_then(|number| self.bound.get(number));
        let Some(literal) = literal else { return Ok(()) };
        if depends_on_settings(ty) {
            let fixed = text::output(&Context::new(context.environment), value, ty)?;
            self.fixed.insert(*literal, FixedLiteral::Text { given: given.into(), fixed: fixed.into() });
        } else if ty == Type::Regclass {
            self.fixed.insert(*literal, FixedLiteral::Relation);
        }
        Ok(())
    }

    /// Writes the fixed forms into the expression that they are of.
    pub fn apply_to_expr(mut self, expr: &mut Expr) {
        // It never breaks off.
        let _: ControlFlow<()> = self.visit_expr(expr);
    }

    /// Writes the fixed forms into the query that they are of.
    pub fn apply_to_query(mut self, query: &mut Query) {
        let _: ControlFlow<()> = self.visit_query(query);
    }
}

impl VisitorMut for Literals {
    type Break = ();

    fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_relation_literal(expr) {
            return ControlFlow::Continue(());
        }
        let Expr::Constant(constant) = expr else { return self.walk_expr(expr) };
        match self.fixed.get(&ptr::from_ref(constant)) {
            Some(FixedLiteral::Text { given, fixed }) => {
                if let Value::String(text) = &mut constant.value
                    && text == given
                {
                    *text = fixed.clone();
                }
            }
            Some(FixedLiteral::Relation) => *expr = relation_literal(constant.clone()),
            None => {}
        }
        ControlFlow::Continue(())
    }
}
