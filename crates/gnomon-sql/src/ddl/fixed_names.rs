//! Names of relations within strings of stored expressions: `nextval('ticket')`, `'ticket'::regclass`. They are kept with
//! their schemas, so that they mean the same whatever the search path is.

use std::ops::ControlFlow;

use gnomon_parser::{
    Position,
    ast::{Cast, Constant, Expr, FunctionCall, Ident, QualifiedName, Query, TypeName, Value},
    visit::VisitorMut,
};

use crate::{
    Result,
    context::View,
    functions::quote_ident,
    query::Binder,
    syntax::{expression_text, query_text},
    types::{Context, Type},
};

/// The functions whose first argument names a relation that an expression goes on using.
const FUNCTIONS: [&str; 3] = ["nextval", "currval", "setval"];

/// Returns the text to keep of an expression that `bind` binds, and what that gives.
pub(super) fn fixed_expression_text<R>(
    expr: &Expr,
    types: &Context<'_>,
    view: &View,
    bind: impl FnOnce(&mut Binder<'_>, &Expr) -> Result<R>,
) -> Result<(String, R)> {
    let mut expr = expr.clone();
    let bound = Binder::new(view, types, &[]).expr_to_keep(&mut expr, bind)?;
    let _: ControlFlow<()> = FixedNames { types, view }.visit_expr(&mut expr);
    Ok((expression_text(&expr)?, bound))
}

/// Returns the text to keep of a query.
pub(super) fn fixed_query_text(query: &mut Query, types: &Context<'_>, view: &View) -> Result<String> {
    let _: ControlFlow<()> = FixedNames { types, view }.visit_query(query);
    query_text(query)
}

/// Puts schemas into the strings of an expression or query that name relations.
struct FixedNames<'a> {
    types: &'a Context<'a>,
    view: &'a View,
}

impl VisitorMut for FixedNames<'_> {
    type Break = ();

    fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call) if is_system_name(&call.name, &FUNCTIONS) => self.fix_argument(call),
            Expr::Cast(cast) if is_regclass(&cast.ty) => {
                cast.ty = regclass();
                if let Expr::Constant(constant) = &mut cast.operand {
                    self.fix(constant);
                }
            }
            _ => {}
        }
        self.walk_expr(expr)
    }
}

impl FixedNames<'_> {
    /// Makes the first argument a value of regclass, if it is a string.
    fn fix_argument(&self, call: &mut FunctionCall) {
        let Some(argument) = call.arguments.first_mut() else { return };
        if let Expr::Constant(constant) = &argument.value
            && matches!(constant.value, Value::String(_))
        {
            let operand = Expr::Constant(constant.clone());
            let cast = Cast { operand, ty: regclass(), position: constant.position };
            argument.value = Expr::Cast(Box::new(cast));
        }
    }

    fn fix(&self, constant: &mut Constant) {
        let Value::String(name) = &mut constant.value else { return };
        let Ok(oid) = self.types.environment.object_by_name(Type::Regclass, name) else { return };
        if let Some((schema, relation)) = self.view.relation_name(oid) {
            *name = format!("{}.{}", quote_ident(&schema), quote_ident(&relation)).into();
        }
    }
}

/// The type, as it is kept: without its schema.
fn regclass() -> TypeName {
    let name = QualifiedName(vec![Ident::new("regclass")]);
    TypeName { name, ..TypeName::system("regclass", Position::NONE) }
}

fn is_regclass(ty: &TypeName) -> bool {
    ty.bounds.is_empty() && is_system_name(&ty.name, &["regclass"])
}

/// True if a name is one of these, of the system's schema.
fn is_system_name(name: &QualifiedName, names: &[&str]) -> bool {
    match &name.0[..] {
        [name] => names.contains(&&*name.name),
        [schema, name] => &*schema.name == "pg_catalog" && names.contains(&&*name.name),
        _ => false,
    }
}
