//! The parameters of a statement: their names and types.

use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, expr::ExprKind},
    types::{Type, format_type},
};

/// The names of a procedure and its parameters.
#[derive(Clone, Debug)]
pub struct ParameterNames {
    /// The procedure's name.
    pub procedure: String,
    /// The names of its parameters, of those that have one.
    pub parameters: Vec<Option<String>>,
}

/// The parameters of a statement. The first use of one decides its type, unless it is declared.
pub struct Parameters<'a> {
    types: Vec<Type>,
    /// Parameters that stood where every type will do, and had none then.
    untyped: Vec<usize>,
    /// Their names, within a procedure.
    names: Option<&'a ParameterNames>,
}

impl<'a> Parameters<'a> {
    /// Parameters of these types, as far as they are declared.
    pub fn new(types: &[Type]) -> Parameters<'a> {
        Parameters { types: types.to_vec(), untyped: Vec::new(), names: None }
    }

    /// Gives them names.
    pub fn set_names(&mut self, names: Option<&'a ParameterNames>) {
        self.names = names;
    }

    /// The parameter of a name, which may be qualified by that of the procedure.
    pub fn named(&self, procedure: Option<&str>, name: &str) -> Option<Expr> {
        let names = self.names.filter(|names| procedure.is_none_or(|of| *of == *names.procedure))?;
        let position = names.parameters.iter().position(|known| known.as_deref() == Some(name))?;
        Some(Expr::new(ExprKind::Param(position), *self.types.get(position)?))
    }

    /// The parameter of a number, from 1.
    ///
    /// # Errors
    /// 42P02 if no statement can have it.
    pub fn numbered(&mut self, number: u32) -> Result<Expr> {
        let Some(position) = u16::try_from(number).ok().and_then(|number| number.checked_sub(1)) else {
            let message = format!("there is no parameter ${number}");
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
        };
        let position = usize::from(position);
        if self.types.len() <= position {
            self.types.resize(position + 1, Type::Unknown);
        }
        Ok(self.at(position))
    }

    /// A parameter with the type that it has by now.
    pub fn at(&self, position: usize) -> Expr {
        Expr::new(ExprKind::Param(position), self.types[position])
    }

    /// Gives a parameter a type, or confirms the one that it has.
    ///
    /// # Errors
    /// 42P08 if it has another one.
    pub fn decide(&mut self, position: usize, ty: Type) -> Result<()> {
        // The first use decides; another one of the parameter may have done so since this one was bound.
        let declared = self.types[position];
        if declared == Type::Unknown {
            self.types[position] = ty;
        } else if declared != ty {
            return Err(SqlError::new(
                SqlState::AMBIGUOUS_PARAMETER,
                format!("inconsistent types deduced for parameter ${}", position + 1),
            )
            .detail(format!("{} versus {}", format_type(declared, None), format_type(ty, None))));
        }
        Ok(())
    }

    /// Notes that a parameter without a type stands where every type will do.
    pub fn leave_open(&mut self, position: usize) {
        self.untyped.push(position);
    }

    /// The types of all parameters, once everything is bound.
    ///
    /// # Errors
    /// 42P18 if one is not determined, and 42P08 if one is by some uses only.
    pub fn types(&self) -> Result<Vec<Type>> {
        let undetermined = |state, position: usize| {
            SqlError::new(state, format!("could not determine data type of parameter ${}", position + 1))
        };
        let is_known = |position: &&usize| self.types.get(**position).is_some_and(|ty| *ty != Type::Unknown);
        if let Some(position) = self.untyped.iter().find(is_known) {
            return Err(undetermined(SqlState::AMBIGUOUS_PARAMETER, *position));
        }
        match self.types.iter().position(|ty| *ty == Type::Unknown) {
            Some(position) => Err(undetermined(SqlState::INDETERMINATE_DATATYPE, position)),
            None => Ok(self.types.clone()),
        }
    }
}
