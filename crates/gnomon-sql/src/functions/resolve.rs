//! Choosing the function or operator that a call means.
//!
//! The rules are PostgreSQL's (its documentation, chapter "Type Conversion"): an exact match of types wins; else, of
//! the candidates that the arguments can be cast to implicitly, those with the most exact matches, then those with the
//! most preferred types where a cast is needed; then literals of unknown type take the category that the candidates
//! left offer, string above others, or at last the type that all known arguments have.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use super::{
    AggregateRef, Body, CastRef, Function, FunctionRef, NullList, SetFunctionRef, Volatility, aggregates,
    declaration::{Declaration, DeclaredBody, Param},
    registry::{AGGREGATES, FUNCTIONS, OPERATORS, SETS},
    sets,
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        ColumnType, Datum, Type,
        cast::{CastContext, can_cast, cast_context, common_type},
        format_type,
    },
};

/// The cast between two types in a context, if there is one.
pub fn resolve_cast(from: Type, to: ColumnType, context: CastContext) -> Option<CastRef> {
    if cast_context(from, to.ty)? > context {
        return None;
    }
    let volatility = if reads_surroundings(from, to.ty) { Volatility::Stable } else { Volatility::Immutable };
    Some(CastRef { from, to, context, volatility })
}

/// True if a cast depends on the clock, the time zone, settings or the catalog.
fn reads_surroundings(from: Type, to: Type) -> bool {
    // Arrays are read and written as their elements are; PostgreSQL does not ask how.
    let is_text = |ty: Type| ty.category() == 'S';
    if is_text(from) && to.element().is_some() || from.element().is_some() && is_text(to) {
        return true;
    }
    let (from, to) = (from.element().unwrap_or(from), to.element().unwrap_or(to));
    let local = |ty| matches!(ty, Type::Date | Type::Time | Type::Timestamp);
    let textual = |ty: Type| ty.category() == 'S' || ty == Type::Unknown;
    let catalog = Type::is_registered;
    match (from, to) {
        (Type::Timestamptz, to) => local(to) || textual(to),
        (from, Type::Timestamptz) => local(from) || textual(from),
        // Text may say 'today'; out comes what settings ask for.
        (from, to) if textual(from) => local(to) || catalog(to),
        (from, to) if textual(to) => catalog(from) || local(from) || from == Type::Interval,
        _ => false,
    }
}

/// A resolved candidate: the declaration and the types that stand for its parameters.
struct Chosen<'a> {
    declaration: &'a Declaration,
    arguments: Vec<Type>,
    element: Option<Type>,
}

impl Chosen<'_> {
    fn result(&self) -> Type {
        match self.declaration.result {
            Param::Is(ty) => ty,
            Param::AnyArray if self.arguments.contains(&Type::AnyArray) => Type::AnyArray,
            Param::AnyArray => self.element.and_then(Type::array).unwrap_or(Type::Unknown),
            Param::AnyElement | Param::AnyAsText | Param::Any => self.element.unwrap_or(Type::Unknown),
        }
    }
}

enum Failure {
    None,
    Ambiguous,
    /// Only literals of unknown type stand where the type decides.
    Undetermined,
    /// The type is that of the elements of an array of any type.
    OfAnyArray,
}

/// The operator for operands of these types; `left` is none for a prefix operator.
///
/// # Errors
/// 42883 if there is none, 42725 if several fit equally.
pub fn resolve_operator(name: &str, left: Option<Type>, right: Type) -> Result<FunctionRef> {
    let name = if name == "!=" { "<>" } else { name };
    let given: Vec<Type> = left.into_iter().chain([right]).collect();
    let candidates = OPERATORS.of(name);
    // A literal beside a known type is first taken for that type.
    let assumed: Vec<Type> = match given.as_slice() {
        [Type::Unknown, known] | [known, Type::Unknown] if *known != Type::Unknown => vec![*known; 2],
        _ => given.clone(),
    };
    let chosen = exact(candidates, &assumed).map_or_else(
        || match choose(candidates, &given) {
            // Where a literal could be an array as well as an element, it is an array.
            Err(Failure::Ambiguous) => choose(candidates, &assumed).map_err(|_| Failure::Ambiguous),
            chosen => chosen,
        },
        Ok,
    );
    let describe = || {
        let right = format_type(right, None);
        match left {
            Some(left) => format!("{} {name} {right}", format_type(left, None)),
            None => format!("{name} {right}"),
        }
    };
    match chosen {
        Ok(chosen) => Ok(finish(&chosen, true, &given)),
        Err(Failure::None) => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("operator does not exist: {}", describe()),
        )
        .hint(match left {
            Some(_) => {
                "No operator matches the given name and argument types. You might need to add explicit type casts."
            }
            None => {
                "No operator matches the given name and argument type. You might need to add an explicit type cast."
            }
        })),
        // Of two literals, PostgreSQL's other candidates (ranges, JSON) fit too.
        Err(failure) if matches!(failure, Failure::Ambiguous) || given.iter().all(|ty| *ty == Type::Unknown) => {
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {}", describe()))
                .hint("Could not choose a best candidate operator. You might need to add explicit type casts."))
        }
        Err(Failure::OfAnyArray) => Err(undetermined_element()),
        Err(_) => Err(undetermined()),
    }
}

/// The arguments of a call as it has them.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// Their types.
    pub types: &'a [Type],
    /// The names of the last ones.
    pub names: &'a [String],
    /// True if VARIADIC stands before the last one.
    pub is_variadic: bool,
}

impl<'a> From<&'a [Type]> for Arguments<'a> {
    fn from(types: &'a [Type]) -> Arguments<'a> {
        Arguments { types, names: &[], is_variadic: false }
    }
}

/// The value that a call gives to a parameter.
#[derive(Clone, Debug)]
pub enum Given {
    /// The argument with this number.
    Argument(usize),
    /// That of the declaration.
    Default(Datum),
}

/// A function, and the values of its parameters in their order.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct ResolvedCall {
    pub function: FunctionRef,
    pub given: Vec<Given>,
}

/// The function that a call means. A type's name with one argument is a cast.
///
/// # Errors
/// 42883 if there is none, 42725 if several fit equally.
pub fn resolve_call(name: &str, arguments: Arguments<'_>) -> Result<ResolvedCall> {
    let given = arguments.types;
    let candidates = FUNCTIONS.of(name);
    if !arguments.names.is_empty() || arguments.is_variadic {
        return resolve_notation(name, candidates, arguments);
    }
    let chosen = match exact(candidates, given) {
        Some(chosen) => Ok(chosen),
        None => {
            if let [from] = given
                && let Some(function) = cast_by_name(name, *from)
            {
                return Ok(ResolvedCall { function, given: vec![Given::Argument(0)] });
            }
            choose(candidates, given)
        }
    };
    let mut chosen = chosen.map_err(|failure| function_error(name, arguments, &failure))?;
    let all = (0..given.len()).map(Given::Argument);
    let missing = chosen.declaration.params.len().saturating_sub(given.len());
    let defaults = &chosen.declaration.defaults;
    let defaults = &defaults[defaults.len() - missing.min(defaults.len())..];
    for param in chosen.declaration.params.iter().skip(given.len()) {
        chosen.arguments.extend(exact_type(*param));
    }
    let values = all.chain(defaults.iter().cloned().map(Given::Default)).collect();
    Ok(ResolvedCall { function: finish(&chosen, false, given), given: values })
}

fn exact_type(param: Param) -> Option<Type> {
    match param {
        Param::Is(ty) => Some(ty),
        _ => None,
    }
}

/// The function that a call with names or VARIADIC means. Each candidate is looked at as if it were declared in the order
/// of the call.
fn resolve_notation(
    name: &str,
    candidates: &[Declaration],
    arguments: Arguments<'_>,
) -> Result<ResolvedCall> {
    let given = arguments.types;
    let as_called = candidates.iter().filter_map(|declaration| {
        let places = places(declaration, arguments)?;
        let mut params: Vec<Param> = places.iter().map(|place| declaration.params[*place]).collect();
        if let (true, true, Some(last)) = (arguments.is_variadic, declaration.variadic, params.last_mut())
            && let Param::Is(ty) = *last
        {
            *last = Param::Is(ty.array()?);
        }
        let called = Declaration { params, variadic: false, defaults: Vec::new(), ..declaration.clone() };
        Some((called, (declaration, places)))
    });
    let (called, declared): (Vec<Declaration>, Vec<(&Declaration, Vec<usize>)>) = as_called.unzip();
    let chosen = exact(&called, given).map_or_else(|| choose(&called, given), Ok);
    let mut chosen = chosen.map_err(|failure| function_error(name, arguments, &failure))?;
    let number = called.iter().position(|one| std::ptr::eq(one, chosen.declaration)).unwrap_or(0);
    let (declaration, places) = &declared[number];
    let mut values = Vec::with_capacity(declaration.params.len());
    let mut types = Vec::with_capacity(declaration.params.len());
    for (place, param) in declaration.params.iter().enumerate() {
        let argument = places.iter().position(|other| *other == place);
        let default = (place + declaration.defaults.len()).checked_sub(declaration.params.len());
        match (argument, default.and_then(|default| declaration.defaults.get(default))) {
            (Some(argument), _) => {
                values.push(Given::Argument(argument));
                types.push(chosen.arguments[argument]);
            }
            (None, Some(default)) => {
                values.push(Given::Default(default.clone()));
                types.extend(exact_type(*param));
            }
            (None, None) => return Err(function_error(name, arguments, &Failure::None)),
        }
    }
    chosen.arguments = types;
    let mut function = finish(&chosen, false, given);
    if arguments.is_variadic
        && declaration.variadic
        && let Some(function) = Arc::get_mut(&mut function.0)
    {
        function.spread = Some(if declaration.null_list_is_empty { NullList::Empty } else { NullList::Null });
    }
    Ok(ResolvedCall { function, given: values })
}

/// The parameters that the arguments of a call with names or VARIADIC are for, if the function can be called so.
fn places(declaration: &Declaration, arguments: Arguments<'_>) -> Option<Vec<usize>> {
    let count = arguments.types.len();
    if arguments.is_variadic && count != declaration.params.len() {
        return None;
    }
    let positional = count - arguments.names.len();
    let mut places: Vec<usize> = (0..positional).collect();
    for name in arguments.names {
        let place = declaration.names.iter().position(|other| other == name)?;
        places.push(Some(place).filter(|place| !places.contains(place))?);
    }
    let required = declaration.params.len() - declaration.defaults.len();
    let is_complete = (0..required).all(|place| places.contains(&place));
    let fits = is_complete && positional <= declaration.params.len();
    // The array itself may have a name only as the last parameter.
    let is_last = !arguments.is_variadic || places.last() == Some(&(count - 1));
    (fits && is_last).then_some(places)
}

/// The set-returning function for arguments of these types.
///
/// # Errors
/// As [`resolve_call`].
pub fn resolve_set_function(name: &str, arguments: Arguments<'_>) -> Result<SetFunctionRef> {
    let candidates = if arguments.names.is_empty() { SETS.of(name) } else { &[] };
    let given = arguments.types;
    match exact(candidates, given).map_or_else(|| choose(candidates, given), Ok) {
        Ok(chosen) => Ok(sets::resolved(chosen.declaration.name, chosen.arguments.clone(), chosen.result())),
        Err(failure) => Err(function_error(name, arguments, &failure)),
    }
}

/// Checks that a function exists that a call may mean, be it one that returns a value or a set.
///
/// # Errors
/// As [`resolve_call`].
pub fn check_function(name: &str, arguments: Arguments<'_>) -> Result<()> {
    match SETS.has(name) {
        true => resolve_set_function(name, arguments).map(drop),
        false => resolve_call(name, arguments).map(drop),
    }
}

/// The aggregate for arguments of these types (none for `count(*)`). With DISTINCT the caller passes each distinct
/// list of arguments once; `distinct` only checks that this is possible.
///
/// # Errors
/// As [`resolve_call`]; 42809 for DISTINCT without arguments.
pub fn resolve_aggregate(name: &str, arguments: Arguments<'_>, distinct: bool) -> Result<AggregateRef> {
    let given = arguments.types;
    if distinct && given.is_empty() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DISTINCT specified, but no arguments were given"));
    }
    if name == "array_agg" && given == [Type::AnyArray] {
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "data type anyarray is not an array type"));
    }
    let candidates = if arguments.names.is_empty() { AGGREGATES.of(name) } else { &[] };
    match exact(candidates, given).map_or_else(|| choose(candidates, given), Ok) {
        Ok(chosen) => {
            aggregates::resolved(chosen.declaration.name, chosen.arguments.clone(), chosen.result())
        }
        // PostgreSQL has one for arrays, too.
        Err(Failure::Undetermined) if name == "array_agg" => {
            Err(function_error(name, arguments, &Failure::Ambiguous))
        }
        Err(failure) => Err(function_error(name, arguments, &failure)),
    }
}

/// The error for a call of a function that is not there.
pub fn missing_function(name: &str, arguments: Arguments<'_>) -> SqlError {
    function_error(name, arguments, &Failure::None)
}

fn function_error(name: &str, arguments: Arguments<'_>, failure: &Failure) -> SqlError {
    let mut types: Vec<String> = arguments.types.iter().map(|ty| format_type(*ty, None)).collect();
    for (ty, name) in types.iter_mut().rev().zip(arguments.names.iter().rev()) {
        *ty = format!("{name} => {ty}");
    }
    let signature = format!("{name}({})", types.join(", "));
    match failure {
        Failure::None if is_missing_function(name) => SqlError::unsupported(format!("function {name}"))
            .hint("It is one of PostgreSQL's that have no counterpart here."),
        Failure::None => SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {signature} does not exist"),
        )
        .hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ),
        Failure::Ambiguous => {
            SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("function {signature} is not unique"))
                .hint("Could not choose a best candidate function. You might need to add explicit type casts.")
        }
        Failure::Undetermined => undetermined(),
        Failure::OfAnyArray => undetermined_element(),
    }
}

/// The error of an array of any type where the type of its elements decides.
fn undetermined_element() -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, "cannot determine element type of \"anyarray\" argument")
}

/// True if PostgreSQL has functions of this name, and there is none here.
pub fn is_missing_function(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> =
        LazyLock::new(|| include_str!("../catalog/system/data/function_names.txt").lines().collect());
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let is_here = FUNCTIONS.has(name) || SETS.has(name) || AGGREGATES.has(name);
    let is_cast = || Type::all().any(|ty| ty.info().typname == name);
    !is_here && NAMES.contains(name) && !is_cast()
}

/// The error of a polymorphic argument of unknown type.
pub fn undetermined() -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        "could not determine polymorphic type because input has type unknown",
    )
}

/// `int4(x)`, `text(x)`: a cast spelled as a call, if it needs no text in between other than for strings.
fn cast_by_name(name: &str, from: Type) -> Option<FunctionRef> {
    let to = Type::all().find(|ty| ty.info().typname == name && ty.element().is_none())?;
    // A literal is read as one of the type, as in a cast.
    let from = if from == Type::Unknown { to } else { from };
    let cast = resolve_cast(from, to.into(), CastContext::Explicit)?;
    Some(FunctionRef(Arc::new(Function {
        name: to.info().typname,
        is_operator: false,
        arguments: vec![from],
        result: to,
        strict: true,
        volatility: cast.volatility,
        comparison: None,
        spread: None,
        body: Body::Cast(cast),
    })))
}

fn finish(chosen: &Chosen, is_operator: bool, given: &[Type]) -> FunctionRef {
    let declaration = chosen.declaration;
    FunctionRef(Arc::new(Function {
        name: declaration.name,
        is_operator,
        arguments: chosen.arguments.clone(),
        result: chosen.result(),
        strict: declaration.strict,
        volatility: declaration.volatility,
        comparison: declaration.comparison,
        spread: None,
        body: match declaration.body {
            DeclaredBody::Native(eval) => Body::Native(eval),
            DeclaredBody::Environment => Body::Environment(declaration.name),
            DeclaredBody::TypeOf => {
                Body::Constant(Datum::Oid(given.first().map_or(Type::Unknown.oid(), |ty| ty.oid())))
            }
        },
    }))
}

/// The candidate whose parameters are exactly these types.
fn exact<'a>(candidates: &'a [Declaration], given: &[Type]) -> Option<Chosen<'a>> {
    let declaration = candidates.iter().find(|declaration| {
        declaration.takes(given.len())
            && given.iter().enumerate().all(|(i, ty)| declaration.param_at(i) == Some(Param::Is(*ty)))
    })?;
    Some(Chosen { declaration, arguments: given.to_vec(), element: None })
}

/// True for the name of a function, false for that of an operator.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// A candidate that the arguments can be cast to, with what each parameter becomes.
fn fitting<'a>(declaration: &'a Declaration, given: &[Type]) -> Result<Chosen<'a>, Failure> {
    if !declaration.takes(given.len()) {
        return Err(Failure::None);
    }
    let params: Vec<Param> = (0..given.len()).filter_map(|i| declaration.param_at(i)).collect();
    // AnyElement is the common type of elements and element-like arguments that are known.
    let mut known = Vec::new();
    let mut polymorphic = 0;
    let mut has_any_array = false;
    for (param, ty) in params.iter().zip(given) {
        match param {
            Param::AnyArray => {
                polymorphic += 1;
                has_any_array |= *ty == Type::AnyArray;
                match ty.element() {
                    Some(element) => known.push(element),
                    None if matches!(ty, Type::Unknown | Type::AnyArray) => {}
                    None => return Err(Failure::None),
                }
            }
            Param::AnyElement => {
                polymorphic += 1;
                known.push(*ty);
            }
            Param::AnyAsText if ty.element().is_some() => return Err(Failure::None),
            Param::Is(to) if !can_cast(*ty, *to, CastContext::Implicit) => return Err(Failure::None),
            // PostgreSQL has these as arrays, and no literal is taken for one.
            Param::Is(Type::Int2vector | Type::Oidvector) if *ty == Type::Unknown => {
                return Err(Failure::None);
            }
            _ => {}
        }
    }
    let mut element = None;
    if polymorphic > 0 {
        let is_known = known.iter().any(|ty| *ty != Type::Unknown);
        if has_any_array && polymorphic > 1 {
            // PostgreSQL's tests of two arrays take anyarray, and what makes an array of two takes anycompatiblearray,
            // which an array of any type is not.
            let is_test = !is_known && declaration.result == Param::Is(Type::Bool);
            return Err(if is_test { Failure::OfAnyArray } else { Failure::None });
        }
        element = match is_known {
            // A result that is an element of an array of any type has no type.
            false if has_any_array && declaration.result == Param::AnyElement => {
                return Err(Failure::OfAnyArray);
            }
            false if has_any_array => None,
            true => Some(common_type(&known, "").map_err(|_| Failure::None)?),
            // As PostgreSQL's anycompatible; a function of one such argument takes anyelement or anyarray.
            false if polymorphic > 1 && is_name(declaration.name) => Some(Type::Text),
            false => return Err(Failure::Undetermined),
        };
    }
    let has_array = params.contains(&Param::AnyArray);
    let arguments = params
        .iter()
        .zip(given)
        .map(|(param, ty)| match param {
            Param::Is(to) => Some(*to),
            Param::AnyArray if element.is_none() => Some(Type::AnyArray),
            Param::AnyArray => element.and_then(Type::array),
            // Without an array beside it anything goes, as it is.
            Param::AnyElement if !has_array => element,
            Param::AnyElement => element.filter(|e| e.scalar().is_some()),
            Param::AnyAsText => Some(Type::Text),
            Param::Any => Some(*ty),
        })
        .collect::<Option<Vec<Type>>>()
        .ok_or(Failure::None)?;
    Ok(Chosen { declaration, arguments, element })
}

fn choose<'a>(candidates: &'a [Declaration], given: &[Type]) -> Result<Chosen<'a>, Failure> {
    let (mut undetermined, mut of_any_array) = (false, false);
    let mut left: Vec<Chosen<'a>> = Vec::new();
    for declaration in candidates {
        match fitting(declaration, given) {
            Ok(chosen) => left.push(chosen),
            Err(Failure::Undetermined) => undetermined = true,
            Err(Failure::OfAnyArray) => of_any_array = true,
            Err(_) => {}
        }
    }
    if left.len() > 1 {
        let exact = |chosen: &Chosen, i: usize| {
            given[i] != Type::Unknown && chosen.declaration.param_at(i) == Some(Param::Is(given[i]))
        };
        keep_best(&mut left, |chosen| (0..given.len()).filter(|&i| exact(chosen, i)).count());
        keep_best(&mut left, |chosen| {
            (0..given.len())
                .filter(|&i| {
                    let preferred = matches!(chosen.declaration.param_at(i), Some(Param::Is(to))
                        if to.preferred() && to.category() == given[i].category());
                    given[i] != Type::Unknown && (exact(chosen, i) || preferred)
                })
                .count()
        });
    }
    if left.len() > 1 && given.contains(&Type::Unknown) {
        left = by_category(left, given);
    }
    // Literals alone are taken for strings before anything else; an array of whatever elements fits as well as others.
    let is_string = |param| matches!(param, Some(Param::Is(ty)) if Type::category(ty) == 'S');
    match &left[..] {
        [] if of_any_array => Err(Failure::OfAnyArray),
        [] => Err(if undetermined { Failure::Undetermined } else { Failure::None }),
        [only] if undetermined && (0..given.len()).any(|i| !is_string(only.declaration.param_at(i))) => {
            Err(Failure::Ambiguous)
        }
        [_] => left.pop().ok_or(Failure::None),
        _ => Err(Failure::Ambiguous),
    }
}

fn keep_best(left: &mut Vec<Chosen>, score: impl Fn(&Chosen) -> usize) {
    let best = left.iter().map(&score).max().unwrap_or(0);
    left.retain(|chosen| score(chosen) == best);
}

/// Decides by what the literals of unknown type could be.
fn by_category<'a>(left: Vec<Chosen<'a>>, given: &[Type]) -> Vec<Chosen<'a>> {
    let is = |chosen: &Chosen, i: usize| match chosen.declaration.param_at(i) {
        Some(Param::Is(ty)) => Some(ty),
        _ => None,
    };
    let unknown: Vec<usize> = (0..given.len()).filter(|&i| given[i] == Type::Unknown).collect();
    let mut wanted: Vec<(usize, char, bool)> = Vec::new();
    let mut resolved = true;
    for &i in &unknown {
        let categories: Vec<Option<char>> =
            left.iter().map(|chosen| is(chosen, i).map(Type::category)).collect();
        let category = if categories.contains(&Some('S')) {
            'S'
        } else if let Some(Some(first)) = categories.first()
            && categories.iter().all(|category| *category == Some(*first))
        {
            *first
        } else {
            resolved = false;
            break;
        };
        let preferred = left
            .iter()
            .any(|chosen| is(chosen, i).is_some_and(|ty| ty.category() == category && ty.preferred()));
        wanted.push((i, category, preferred));
    }
    if resolved {
        let fits = |chosen: &Chosen| {
            wanted.iter().all(|(i, category, preferred)| {
                is(chosen, *i).is_some_and(|ty| ty.category() == *category && (!preferred || ty.preferred()))
            })
        };
        if left.iter().any(fits) {
            let kept: Vec<Chosen> = left.into_iter().filter(fits).collect();
            return by_known(kept, given);
        }
    }
    by_known(left, given)
}

/// If all known arguments have one type, tries it for the unknown ones.
fn by_known<'a>(left: Vec<Chosen<'a>>, given: &[Type]) -> Vec<Chosen<'a>> {
    let mut known = given.iter().filter(|ty| **ty != Type::Unknown);
    let Some(first) = known.next() else { return left };
    if left.len() < 2 || !known.all(|ty| ty == first) {
        return left;
    }
    let takes_it = |chosen: &Chosen| {
        (0..given.len()).all(|i| match chosen.declaration.param_at(i) {
            Some(Param::Is(to)) => can_cast(*first, to, CastContext::Implicit),
            _ => true,
        })
    };
    if left.iter().filter(|chosen| takes_it(chosen)).count() == 1 {
        left.into_iter().filter(takes_it).collect()
    } else {
        left
    }
}
