//! Expressions of pgbench's scripts: what `\set` computes and `\if` decides by.
//!
//! Promises: operators, their precedence and functions are those of PostgreSQL 15's manual, but `debug`. Integers do
//! not overflow silently; functions and most operators of NULL are NULL; AND, OR and CASE compute no more than they
//! need. An expression is read once, and its variables are numbers from then on ([`Names`]).

use gnomon_engine::env::Rng;

use super::{random, value::Value};

/// The variables of a script, by number.
#[derive(Clone, Debug)]
pub struct Names(Vec<String>);

/// The number of the variable that hashes and permutations are seeded by, unless they are given a seed.
pub const DEFAULT_SEED: usize = 0;

impl Names {
    /// Those that every script has.
    pub fn new() -> Names {
        Names(vec!["default_seed".into()])
    }

    /// The number of a variable, which is a new one if the name is.
    pub fn number(&mut self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }

    /// The number of a variable that the script has.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known == name)
    }

    /// The name of a variable.
    pub fn name(&self, number: usize) -> &str {
        &self.0[number]
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Returns the length in bytes of the variable's name that a text begins with, or zero. A name consists of letters,
/// digits and underscores, with no digit in front.
pub fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
}

/// The values of variables, by their numbers.
pub type Variables = Vec<Option<Value>>;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression(Node);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Constant(Value),
    Variable(usize),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Call(Function, Vec<Node>),
    /// Conditions with their results, and what is the result otherwise.
    Case(Vec<(Node, Node)>, Box<Node>),
}

/// Functions, operators among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Not,
    /// True if it is the second argument, a constant.
    Is,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Abs,
    Double,
    Exp,
    Fnv1a,
    Greatest,
    Int,
    Least,
    Ln,
    Murmur2,
    Permute,
    Pi,
    Power,
    Random,
    Exponential,
    Gaussian,
    Zipfian,
    Sqrt,
}

/// Functions by name, with how many arguments they take, at least and at most.
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("abs", Function::Abs, 1, 1),
    ("double", Function::Double, 1, 1),
    ("exp", Function::Exp, 1, 1),
    ("greatest", Function::Greatest, 1, usize::MAX),
    ("hash", Function::Murmur2, 1, 2),
    ("hash_fnv1a", Function::Fnv1a, 1, 2),
    ("hash_murmur2", Function::Murmur2, 1, 2),
    ("int", Function::Int, 1, 1),
    ("least", Function::Least, 1, usize::MAX),
    ("ln", Function::Ln, 1, 1),
    ("mod", Function::Modulo, 2, 2),
    ("permute", Function::Permute, 2, 3),
    ("pi", Function::Pi, 0, 0),
    ("pow", Function::Power, 2, 2),
    ("power", Function::Power, 2, 2),
    ("random", Function::Random, 2, 2),
    ("random_exponential", Function::Exponential, 3, 3),
    ("random_gaussian", Function::Gaussian, 3, 3),
    ("random_zipfian", Function::Zipfian, 3, 3),
    ("sqrt", Function::Sqrt, 1, 1),
];

impl Expression {
    /// Reads an expression. Its variables get numbers.
    ///
    /// # Errors
    /// What of the text is no expression.
    pub fn parse(text: &str, names: &mut Names) -> Result<Expression, String> {
        let tokens = tokens(text)?;
        // What is computed of them is as deep as they are many.
        if tokens.len() > TOKENS_MAX {
            return Err(format!(
                "an expression of more than {TOKENS_MAX} words and symbols: cut it in several \\set"
            ));
        }
        let mut parser = Parser { tokens, at: 0, depth: 0, names };
        let node = parser.expression()?;
        match parser.peek() {
            None => Ok(Expression(node)),
            Some(token) => Err(format!("{} is not expected behind an expression", token.text())),
        }
    }

    /// Its value.
    ///
    /// # Errors
    /// A variable that was not set, and what cannot be computed: an overflow, a division by zero, a boolean where a
    /// number must be.
    pub fn evaluate(&self, names: &Names, variables: &Variables, rng: &mut Rng) -> Result<Value, String> {
        Evaluation { names, variables, rng }.node(&self.0)
    }

    /// The numbers of the variables that it has.
    pub fn variables(&self) -> Vec<usize> {
        let mut all = Vec::new();
        self.0.collect(&mut all);
        all
    }
}

impl Node {
    fn collect(&self, all: &mut Vec<usize>) {
        match self {
            Node::Constant(_) => {}
            Node::Variable(number) => all.push(*number),
            Node::And(sides) | Node::Or(sides) => sides.iter().for_each(|side| side.collect(all)),
            Node::Call(_, arguments) => arguments.iter().for_each(|argument| argument.collect(all)),
            Node::Case(cases, otherwise) => {
                cases.iter().for_each(|(condition, result)| {
                    condition.collect(all);
                    result.collect(all);
                });
                otherwise.collect(all);
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// Up to 2^63, which is an integer behind a minus.
    Int(u64),
    Double(f64),
    /// In lower case.
    Word(String),
    Variable(String),
    Symbol(&'static str),
}

impl Token {
    fn text(&self) -> String {
        match self {
            Token::Int(int) => format!("'{int}'"),
            Token::Double(double) => format!("'{double}'"),
            Token::Word(word) => format!("'{word}'"),
            Token::Variable(name) => format!("':{name}'"),
            Token::Symbol(symbol) => format!("'{symbol}'"),
        }
    }
}

/// Longer ones before those that they begin with.
const SYMBOLS: [&str; 21] = [
    "<=", ">=", "<>", "!=", "<<", ">>", "<", ">", "=", "+", "-", "*", "/", "%", "|", "#", "&", "~", "(", ")",
    ",",
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(next) = rest.chars().next() {
        let taken =
            if next.is_ascii_digit() || next == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
                let length = number_length(rest);
                tokens.push(number(&rest[..length])?);
                length
            } else if next == ':' {
                let length = name_length(&rest[1..]);
                if length == 0 {
                    return Err("a colon is followed by the name of a variable".into());
                }
                tokens.push(Token::Variable(rest[1..=length].to_owned()));
                1 + length
            } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(*symbol)) {
                tokens.push(Token::Symbol(symbol));
                symbol.len()
            } else {
                let length = name_length(rest);
                if length == 0 {
                    return Err(format!("'{next}' is in no expression"));
                }
                tokens.push(Token::Word(rest[..length].to_ascii_lowercase()));
                length
            };
        rest = rest[taken..].trim_start();
    }
    Ok(tokens)
}

/// The length of the number that a text begins with.
fn number_length(text: &str) -> usize {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    if text[length..].starts_with('.') {
        length += 1 + digits(length + 1);
    }
    if text[length..].starts_with(['e', 'E']) {
        let sign = usize::from(text[length + 1..].starts_with(['+', '-']));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    length
}

fn number(text: &str) -> Result<Token, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = text.parse().ok().filter(|number| *number <= 1 << 63);
        return number.map(Token::Int).ok_or_else(|| format!("{text} is out of range of integers"));
    }
    match text.parse() {
        Ok(double) if f64::is_finite(double) => Ok(Token::Double(double)),
        _ => Err(format!("{text} is out of range of doubles")),
    }
}

/// Expressions within each other end somewhere.
const DEPTH_MAX: usize = 100;
/// Numbers, words and symbols of an expression.
const TOKENS_MAX: usize = 1000;

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    names: &'a mut Names,
}

/// Operators of two numbers that bind alike.
type Operators = &'static [(&'static str, Function)];

const COMPARISONS: Operators = &[
    ("=", Function::Equal),
    ("<>", Function::NotEqual),
    ("!=", Function::NotEqual),
    ("<=", Function::LessOrEqual),
    (">=", Function::GreaterOrEqual),
    ("<", Function::Less),
    (">", Function::Greater),
];
/// Those that are grouped from the left, the weaker first.
const LEVELS: [Operators; 3] = [
    &[
        ("|", Function::BitOr),
        ("#", Function::BitXor),
        ("&", Function::BitAnd),
        ("<<", Function::ShiftLeft),
        (">>", Function::ShiftRight),
    ],
    &[("+", Function::Add), ("-", Function::Subtract)],
    &[("*", Function::Multiply), ("/", Function::Divide), ("%", Function::Modulo)],
];

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes a word, if it is the next token.
    fn word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(next)) if next == word);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes a symbol, if it is the next token.
    fn symbol(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Symbol(next)) if *next == symbol);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, is_there: bool, what: &str) -> Result<(), String> {
        match (is_there, self.peek()) {
            (true, _) => Ok(()),
            (false, Some(token)) => Err(format!("{what} is expected, not {}", token.text())),
            (false, None) => Err(format!("{what} is expected behind an expression")),
        }
    }

    /// Takes one of some operators.
    fn operator(&mut self, operators: Operators) -> Option<Function> {
        operators.iter().find(|(symbol, _)| self.symbol(symbol)).map(|(_, function)| *function)
    }

    /// Reads an expression that stands within another one.
    fn within(&mut self, read: impl Fn(&mut Self) -> Result<Node, String>) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("expressions are more than {DEPTH_MAX} deep within each other"));
        }
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn expression(&mut self) -> Result<Node, String> {
        self.within(Parser::or)
    }

    fn or(&mut self) -> Result<Node, String> {
        let mut left = self.and()?;
        while self.word("or") {
            left = Node::Or(Box::new([left, self.and()?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Node, String> {
        let mut left = self.not()?;
        while self.word("and") {
            left = Node::And(Box::new([left, self.not()?]));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Node, String> {
        let mut count = 0;
        while self.word("not") {
            count += 1;
        }
        let node = self.is()?;
        Ok((0..count).fold(node, |node, _| Node::Call(Function::Not, vec![node])))
    }

    fn is(&mut self) -> Result<Node, String> {
        let mut tested = self.comparison()?;
        loop {
            let (negated, constant) = if self.word("isnull") {
                (false, Value::Null)
            } else if self.word("notnull") {
                (true, Value::Null)
            } else if self.word("is") {
                let negated = self.word("not");
                let words =
                    [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
                match words.into_iter().find(|(word, _)| self.word(word)) {
                    Some((_, constant)) => (negated, constant),
                    None => {
                        return Err(
                            "IS is followed by NULL, TRUE or FALSE, or by NOT and one of these".into()
                        );
                    }
                }
            } else {
                return Ok(tested);
            };
            tested = Node::Call(Function::Is, vec![tested, Node::Constant(constant)]);
            if negated {
                tested = Node::Call(Function::Not, vec![tested]);
            }
        }
    }

    fn comparison(&mut self) -> Result<Node, String> {
        let left = self.level(0)?;
        Ok(match self.operator(COMPARISONS) {
            Some(function) => Node::Call(function, vec![left, self.level(0)?]),
            None => left,
        })
    }

    fn level(&mut self, level: usize) -> Result<Node, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        while let Some(function) = self.operator(operators) {
            left = Node::Call(function, vec![left, self.level(level + 1)?]);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, String> {
        let mut negations = Vec::new();
        while let Some(sign) = ["-", "+"].into_iter().find(|sign| self.symbol(sign)) {
            negations.push(sign == "-");
        }
        let mut node = match self.peek() {
            // The least integer has no positive one.
            Some(Token::Int(int)) if *int == 1 << 63 && negations.last() == Some(&true) => {
                self.at += 1;
                negations.pop();
                Node::Constant(Value::Int(i64::MIN))
            }
            // It takes sums and products, as if it stood between numbers like its likes.
            Some(Token::Symbol("~")) => {
                self.at += 1;
                let inverted = self.within(|parser| parser.level(1))?;
                Node::Call(Function::BitXor, vec![Node::Constant(Value::Int(-1)), inverted])
            }
            _ => self.primary()?,
        };
        for _ in negations.into_iter().filter(|negation| *negation) {
            node = Node::Call(Function::Subtract, vec![Node::Constant(Value::Int(0)), node]);
        }
        Ok(node)
    }

    fn primary(&mut self) -> Result<Node, String> {
        let Some(token) = self.peek().cloned() else { return Err("an expression is expected".into()) };
        self.at += 1;
        match token {
            Token::Int(int) => match i64::try_from(int) {
                Ok(int) => Ok(Node::Constant(Value::Int(int))),
                Err(_) => Err(format!("{int} is out of range of integers")),
            },
            Token::Double(double) => Ok(Node::Constant(Value::Double(double))),
            Token::Variable(name) => Ok(Node::Variable(self.names.number(&name))),
            Token::Symbol("(") => {
                let node = self.expression()?;
                let closed = self.symbol(")");
                self.expect(closed, "')'")?;
                Ok(node)
            }
            Token::Word(word) => match word.as_str() {
                "null" => Ok(Node::Constant(Value::Null)),
                "true" => Ok(Node::Constant(Value::Bool(true))),
                "false" => Ok(Node::Constant(Value::Bool(false))),
                "case" => self.case(),
                _ => self.call(&word),
            },
            Token::Symbol(_) => Err(format!("an expression is expected, not {}", token.text())),
        }
    }

    fn case(&mut self) -> Result<Node, String> {
        let mut cases = Vec::new();
        while self.word("when") {
            let condition = self.expression()?;
            let then = self.word("then");
            self.expect(then, "THEN")?;
            cases.push((condition, self.expression()?));
        }
        if cases.is_empty() {
            return Err("CASE is followed by WHEN".into());
        }
        let otherwise = if self.word("else") { self.expression()? } else { Node::Constant(Value::Null) };
        let ended = self.word("end");
        self.expect(ended, "END")?;
        Ok(Node::Case(cases, Box::new(otherwise)))
    }

    fn call(&mut self, name: &str) -> Result<Node, String> {
        let opened = self.symbol("(");
        let Some(&(_, function, least, most)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
            let names: Vec<_> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
            return Err(match opened {
                true => format!("there is no function '{name}': there are {}", names.join(", ")),
                false => format!("'{name}' is no expression: write :{name} for the variable"),
            });
        };
        self.expect(opened, &format!("'(' behind {name}"))?;
        let mut arguments = Vec::new();
        if !self.symbol(")") {
            loop {
                arguments.push(self.expression()?);
                if !self.symbol(",") {
                    break;
                }
            }
            let closed = self.symbol(")");
            self.expect(closed, "',' or ')'")?;
        }
        if !(least..=most).contains(&arguments.len()) {
            let taken = match (least, most) {
                (least, usize::MAX) => format!("at least {least}"),
                (least, most) if least == most => least.to_string(),
                (least, most) => format!("{least} or {most}"),
            };
            return Err(format!("{name} takes {taken} arguments, not {}", arguments.len()));
        }
        if matches!(function, Function::Fnv1a | Function::Murmur2 | Function::Permute)
            && arguments.len() < most
        {
            arguments.push(Node::Variable(DEFAULT_SEED));
        }
        Ok(Node::Call(function, arguments))
    }
}

struct Evaluation<'a> {
    names: &'a Names,
    variables: &'a Variables,
    rng: &'a mut Rng,
}

impl Evaluation<'_> {
    fn node(&mut self, node: &Node) -> Result<Value, String> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Variable(number) => {
                let name = self.names.name(*number);
                match &self.variables[*number] {
                    Some(value) => value.read().map_err(|error| format!("variable {name}: {error}")),
                    None => Err(undefined(name)),
                }
            }
            Node::And(sides) => self.both(sides, false),
            Node::Or(sides) => self.both(sides, true),
            Node::Case(cases, otherwise) => {
                for (condition, result) in cases {
                    if self.node(condition)?.is_true() {
                        return self.node(result);
                    }
                }
                self.node(otherwise)
            }
            Node::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.node(argument)?);
                }
                if *function != Function::Is && values.contains(&Value::Null) {
                    return Ok(Value::Null);
                }
                self.call(*function, &values)
            }
        }
    }

    /// AND and OR: the left side is enough if it is NULL, or has the deciding value.
    fn both(&mut self, [left, right]: &[Node; 2], deciding: bool) -> Result<Value, String> {
        let left = self.node(left)?;
        if left == Value::Null || left.is_true() == deciding {
            return Ok(if left == Value::Null { left } else { Value::Bool(deciding) });
        }
        let right = self.node(right)?;
        Ok(if right == Value::Null { right } else { Value::Bool(right.is_true()) })
    }

    fn call(&mut self, function: Function, values: &[Value]) -> Result<Value, String> {
        let int = |at: usize| values[at].as_int();
        let double = |at: usize| values[at].as_double();
        let is_double = values.iter().any(|value| matches!(value, Value::Double(_)));
        Ok(match function {
            Function::Not => Value::Bool(!values[0].as_bool()?),
            Function::Is => Value::Bool(values[0] == values[1]),
            Function::Equal
            | Function::NotEqual
            | Function::Less
            | Function::LessOrEqual
            | Function::Greater
            | Function::GreaterOrEqual => {
                // Doubles have no order if one is NaN.
                let order = match is_double {
                    true => double(0)?.partial_cmp(&double(1)?),
                    false => Some(int(0)?.cmp(&int(1)?)),
                };
                Value::Bool(match function {
                    Function::Equal => order.is_some_and(|order| order.is_eq()),
                    Function::NotEqual => order.is_none_or(|order| order.is_ne()),
                    Function::Less => order.is_some_and(|order| order.is_lt()),
                    Function::LessOrEqual => order.is_some_and(|order| order.is_le()),
                    Function::Greater => order.is_some_and(|order| order.is_gt()),
                    _ => order.is_some_and(|order| order.is_ge()),
                })
            }
            Function::BitOr => Value::Int(int(0)? | int(1)?),
            Function::BitXor => Value::Int(int(0)? ^ int(1)?),
            Function::BitAnd => Value::Int(int(0)? & int(1)?),
            // By the last six bits, as processors do.
            Function::ShiftLeft => Value::Int(int(0)?.wrapping_shl(int(1)? as u32)),
            Function::ShiftRight => Value::Int(int(0)?.wrapping_shr(int(1)? as u32)),
            Function::Add if is_double => Value::Double(double(0)? + double(1)?),
            Function::Subtract if is_double => Value::Double(double(0)? - double(1)?),
            Function::Multiply if is_double => Value::Double(double(0)? * double(1)?),
            Function::Divide if is_double => Value::Double(double(0)? / double(1)?),
            Function::Add => Value::Int(int(0)?.checked_add(int(1)?).ok_or("a sum is out of range")?),
            Function::Subtract => {
                Value::Int(int(0)?.checked_sub(int(1)?).ok_or("a difference is out of range")?)
            }
            Function::Multiply => {
                Value::Int(int(0)?.checked_mul(int(1)?).ok_or("a product is out of range")?)
            }
            Function::Divide => match int(1)? {
                0 => return Err("division by zero".into()),
                divisor => Value::Int(int(0)?.checked_div(divisor).ok_or("a quotient is out of range")?),
            },
            Function::Modulo => match int(1)? {
                0 => return Err("division by zero".into()),
                divisor => Value::Int(int(0)?.wrapping_rem(divisor)),
            },
            Function::Abs if is_double => Value::Double(double(0)?.abs()),
            Function::Abs => Value::Int(int(0)?.checked_abs().ok_or("an absolute value is out of range")?),
            Function::Double => Value::Double(double(0)?),
            Function::Int => Value::Int(int(0)?),
            Function::Exp => Value::Double(double(0)?.exp()),
            Function::Ln => Value::Double(double(0)?.ln()),
            Function::Sqrt => Value::Double(double(0)?.sqrt()),
            Function::Pi => Value::Double(std::f64::consts::PI),
            Function::Power => Value::Double(double(0)?.powf(double(1)?)),
            Function::Greatest | Function::Least => {
                let takes = |best: f64, next: f64| match function {
                    Function::Greatest => best.max(next),
                    _ => best.min(next),
                };
                match is_double {
                    true => {
                        let doubles: Vec<f64> =
                            values.iter().map(Value::as_double).collect::<Result<_, _>>()?;
                        Value::Double(doubles[1..].iter().fold(doubles[0], |best, next| takes(best, *next)))
                    }
                    false => {
                        let ints: Vec<i64> = values.iter().map(Value::as_int).collect::<Result<_, _>>()?;
                        let best = match function {
                            Function::Greatest => ints.iter().max(),
                            _ => ints.iter().min(),
                        };
                        best.map_or(Value::Null, |best| Value::Int(*best))
                    }
                }
            }
            Function::Fnv1a => Value::Int(random::fnv1a(int(0)?, int(1)?)),
            Function::Murmur2 => Value::Int(random::murmur2(int(0)?, int(1)?)),
            Function::Permute => Value::Int(random::permute(int(0)?, int(1)?, int(2)?)?),
            Function::Random => Value::Int(random::uniform(self.rng, int(0)?, int(1)?)?),
            Function::Exponential => Value::Int(random::exponential(self.rng, int(0)?, int(1)?, double(2)?)?),
            Function::Gaussian => Value::Int(random::gaussian(self.rng, int(0)?, int(1)?, double(2)?)?),
            Function::Zipfian => Value::Int(random::zipfian(self.rng, int(0)?, int(1)?, double(2)?)?),
        })
    }
}

/// Returns the message about a variable that is not set.
pub fn undefined(name: &str) -> String {
    format!("variable {name} is not set: set it by \\set before, or by --define {name}=VALUE")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an expression, as a text that tells its type.
    fn value(text: &str) -> String {
        let mut names = Names::new();
        for name in ["x", "t", "bad"] {
            names.number(name);
        }
        let computed = Expression::parse(text, &mut names).and_then(|expression| {
            let mut variables: Variables = vec![None; names.count()];
            let set =
                [Value::Int(5432), Value::Int(7), Value::Text("1.5".into()), Value::Text("word".into())];
            variables.splice(0..4, set.map(Some));
            expression.evaluate(&names, &variables, &mut Rng::from_seed(1))
        });
        match computed {
            Ok(Value::Double(double)) => format!("{double:?}"),
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    /// What PostgreSQL's manual gives as examples, and pgbench computes of the others.
    #[test]
    fn expressions_have_the_values_that_pgbench_computes() {
        for (text, expected) in
            include_str!("expressions.txt").lines().filter_map(|line| line.split_once(" => "))
        {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "an expression is expected"),
            ("1 +", "an expression is expected"),
            ("(1", "')' is expected behind an expression"),
            ("1 2", "'2' is not expected behind an expression"),
            ("1 = 2 = 3", "'=' is not expected behind an expression"),
            ("x + 1", "'x' is no expression: write :x for the variable"),
            ("ceil(1.5)", "there is no function 'ceil': there are abs, double, "),
            ("random(1)", "random takes 2 arguments, not 1"),
            ("hash(1, 2, 3)", "hash takes 1 or 2 arguments, not 3"),
            ("least()", "least takes at least 1 arguments, not 0"),
            ("abs 1", "'(' behind abs is expected, not '1'"),
            ("case 1 end", "CASE is followed by WHEN"),
            ("case when 1 then 2", "END is expected behind an expression"),
            ("1 is 2", "IS is followed by NULL, TRUE or FALSE"),
            ("'a'", "''' is in no expression"),
            (": + 1", "a colon is followed by the name of a variable"),
            ("9223372036854775808", "9223372036854775808 is out of range of integers"),
            ("1e999", "1e999 is out of range of doubles"),
            (":nobody", "variable nobody is not set"),
            (":bad", "variable bad: 'word' is no number, boolean or null"),
        ] {
            let said = value(text);
            assert!(said.starts_with(&format!("error: {reason}")), "{text}: {said}");
        }
        let deep = "(".repeat(500);
        assert!(value(&deep).contains("more than 100 deep"));
        for long in ["(".repeat(100_000), "-".repeat(100_000) + "1", "1".to_owned() + &" + 1".repeat(100_000)]
        {
            assert!(value(&long).contains("more than 1000 words"));
        }
    }
}
