//! Names of types, functions and operators that a schema may qualify.

use gnomon_parser::ast::{Ident, OperatorName, QualifiedName, TypeName};

use super::Typing;
use crate::{
    Result, SqlError, SqlState,
    binder::syntax::{dotted, function_name, operator_name},
    types::{ColumnType, Type, column_type},
};

impl Typing<'_> {
    /// The type of a name in an expression.
    ///
    /// # Errors
    /// As [`column_type`]; 0A000 for the rows of a relation.
    pub fn type_named(&self, name: &TypeName) -> Result<ColumnType> {
        column_type(name).map_err(|error| match error.state() {
            SqlState::UNDEFINED_OBJECT if self.names_relation(&name.name) => {
                SqlError::unsupported(format!("composite type {}", dotted(&name.name))).at(name.position)
            }
            _ => error,
        })
    }

    fn names_relation(&self, name: &QualifiedName) -> bool {
        let quoted: Vec<String> = name.0.iter().map(quoted).collect();
        self.context.environment.object_by_name(Type::Regclass, &quoted.join(".")).is_ok()
    }

    /// The name of a function, which may only be qualified by the system's schemas, and the database's name.
    ///
    /// # Errors
    /// 3F000 for a schema that does not exist, 42883 for another one, 0A000 for another database.
    pub fn function_name(&self, name: &QualifiedName, database: &str) -> Result<String> {
        let local = match &name.0[..] {
            [of, rest @ ..] if rest.len() == 2 && *of.name == *database => &QualifiedName(rest.to_vec()),
            [_, _, _] => {
                let message = format!("cross-database references are not implemented: {}", dotted(name));
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            [_] | [_, _] => name,
            _ => {
                let message = format!("improper qualified name (too many dotted names): {}", dotted(name));
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        let schema = local.0.split_last().map_or(&[][..], |(_, schema)| schema);
        function_name(local).map_err(|error| self.schema_missing(schema).unwrap_or(error))
    }

    /// The name of an operator, which may only be qualified by the system's schema.
    ///
    /// # Errors
    /// As [`Typing::function_name`].
    pub fn operator_name(&self, operator: &OperatorName) -> Result<String> {
        operator_name(operator).map_err(|error| match self.schema_missing(&operator.schema) {
            Some(missing) => missing.at(operator.position),
            None => error,
        })
    }

    /// The error for a schema that does not exist.
    fn schema_missing(&self, schema: &[Ident]) -> Option<SqlError> {
        let [schema] = schema else { return None };
        self.context.environment.object_by_name(Type::Regnamespace, &quoted(schema)).err()
    }
}

fn quoted(name: &Ident) -> String {
    format!("\"{}\"", name.name.replace('"', "\"\""))
}
