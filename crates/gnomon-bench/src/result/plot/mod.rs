//! Figures of curves as SVG, with what the source states as hollow rings among them: panels, each with its axes.
//!
//! - [`Figure::to_svg`] is a file of its own: panels one below the other, with a legend;
//! - [`Panel::draw`] is one panel for a page, whose legend ([`Figure::keys_of`]) is the page's to lay out; the page needs
//!   [`STYLE`], in which are all colours: for light and dark grounds, and for print.
//!
//! Promises: a figure is a text that depends on its data alone, needs no font, script or other file, and escapes what
//! it is given. Points that cannot be drawn (not finite, or next to that; not positive on a logarithmic axis) are left out. A curve is
//! told from the others by the shape of its marks too. Each mark has its value as a title. A panel is legible from 320
//! pixels of width on.
//!
//! Not done here: bars, areas, anything that moves.

use std::f64::consts::TAU;

use maud::{Markup, PreEscaped, html};
use serde::{Deserialize, Serialize, Serializer};

mod spread;

use spread::Spread;

/// The colours and texts of figures, as a style sheet.
pub const STYLE: &str = include_str!("style.css");

/// A figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure<T = &'static str> {
    /// Its file's name, without an ending.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// From top to bottom.
    pub panels: Vec<Panel<T>>,
}

/// One pair of axes with curves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Panel<T = &'static str> {
    /// The horizontal axis.
    pub x: Axis<T>,
    /// The vertical axis.
    pub y: Axis<T>,
    /// The curves.
    pub curves: Vec<Curve>,
    /// The figures that the source states.
    pub stated: Vec<Stated>,
}

/// An axis.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Axis<T = &'static str> {
    /// The quantity and its unit.
    pub label: T,
    /// How numbers are spread over it.
    pub scale: Scale,
}

/// How numbers are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// Each power of this base takes the same room.
    Logarithmic(u32),
}

/// A curve: points joined by lines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// Its meaning.
    pub label: String,
    /// Its points, from left to right.
    #[serde(serialize_with = "finite")]
    pub points: Vec<(f64, f64)>,
}

/// Figures that the source states: points, or one value over a range.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stated {
    /// The name of the figures. The label of a curve, alone or before a colon, gives it that curve's colour.
    pub label: String,
    /// The points.
    #[serde(serialize_with = "finite")]
    pub points: Vec<(f64, f64)>,
    /// True if it is stated for everything between the points: a dashed line then, without marks.
    pub throughout: bool,
}

/// Points that have a place: JSON has no others.
fn finite<S: Serializer>(points: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()))
}

/// An entry of a legend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The curve or the statement that it names.
    pub label: String,
    look: Look,
}

/// How something is drawn. Of a curve: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Curve(usize),
    Ring(Option<usize>),
    Dashes(Option<usize>),
}

/// Colours and shapes that there are.
const LOOKS: usize = 8;
const WIDTH: f64 = 360.0;
/// Of the room for curves.
const HEIGHT: f64 = 170.0;
const TOP: f64 = 28.0;
/// Of the room below, without the label's lines.
const BOTTOM: f64 = 33.0;
/// Of the room at the right, for half of a tick's name.
const RIGHT: f64 = 22.0;
const LINE: f64 = 16.0;
/// Of a digit, in the larger of the sizes.
const DIGIT: f64 = 8.2;
/// Of a line of a label.
const LABEL_CHARS: usize = 46;
const TITLE_CHARS: usize = 38;
/// Marks tell measured points from the lines between them, as long as there are few.
const MARKS_MAX: usize = 40;

impl<T: AsRef<str>> Figure<T> {
    /// The figure as an SVG file.
    pub fn to_svg(&self) -> String {
        const GAP: f64 = 14.0;
        let mut top = GAP;
        let title: Vec<_> =
            lines(&self.title, TITLE_CHARS).into_iter().map(|line| (advance(&mut top, LINE), line)).collect();
        let legend = |keys: &[Key], top: &mut f64| -> Vec<Markup> {
            keys.iter().map(|key| key.draw_row(advance(top, LINE))).collect()
        };
        let shared = legend(&self.keys(), &mut top);
        let panels: Vec<Markup> = self
            .panels
            .iter()
            .map(|panel| {
                advance(&mut top, GAP);
                let keys = legend(&self.keys_of(panel), &mut top);
                advance(&mut top, GAP / 2.0);
                let at = advance(&mut top, panel.height());
                html! { @for key in keys { (key) } (panel.draw_at(Some(at))) }
            })
            .collect();
        let height = top + GAP;
        let svg = html! {
            svg xmlns="http://www.w3.org/2000/svg" class="figure" width=(2.0 * WIDTH) height=(2.0 * height)
                viewBox={ "0 0 " (WIDTH) " " (height) } {
                style { (PreEscaped(STYLE)) }
                rect class="ground" width="100%" height="100%" {}
                @for (at, line) in title { text class="title" x="6" y=(at + 12.0) { (line) } }
                @for key in shared { (key) }
                @for panel in panels { (panel) }
            }
        };
        svg.into_string() + "\n"
    }

    /// The legend of all panels: what each of them has.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys = self.panels.first().map_or_else(Vec::new, Panel::keys);
        keys.retain(|key| self.panels.iter().all(|panel| panel.keys().contains(key)));
        keys
    }

    /// The legend of one of its panels: what not all of them have.
    pub fn keys_of(&self, panel: &Panel<T>) -> Vec<Key> {
        let shared = self.keys();
        panel.keys().into_iter().filter(|key| !shared.contains(key)).collect()
    }
}

/// Moves on by a length; returns where it was.
fn advance(at: &mut f64, by: f64) -> f64 {
    let was = *at;
    *at += by;
    was
}

impl<T: AsRef<str>> Panel<T> {
    /// The curves, then what is stated.
    fn keys(&self) -> Vec<Key> {
        let curves = self.curves.iter().enumerate();
        let curves =
            curves.map(|(number, curve)| Key { label: curve.label.clone(), look: Look::Curve(number) });
        let stated = self.stated.iter().map(|stated| {
            let label = match stated.label.as_str() {
                "" => "stated".to_owned(),
                label => format!("{label}, stated"),
            };
            Key { label, look: self.look(stated) }
        });
        curves.chain(stated).collect()
    }

    fn look(&self, stated: &Stated) -> Look {
        let is_of = |label: &str| {
            let rest = stated.label.strip_prefix(label);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        let number = self.curves.iter().position(|curve| is_of(&curve.label));
        if stated.throughout { Look::Dashes(number) } else { Look::Ring(number) }
    }

    /// The panel as an SVG element of a page.
    pub fn draw(&self) -> Markup {
        self.draw_at(None)
    }

    /// How high it is when it is [`WIDTH`] wide.
    fn height(&self) -> f64 {
        TOP + HEIGHT + BOTTOM + LINE * lines(self.x.label.as_ref(), LABEL_CHARS).len() as f64
    }

    /// As a part of a figure, that far below its top.
    fn draw_at(&self, top: Option<f64>) -> Markup {
        let stated = || self.stated.iter().map(|stated| &stated.points);
        let points = || {
            let all = self.curves.iter().map(|curve| &curve.points).chain(stated());
            all.flatten().filter(|point| self.can_draw(point))
        };
        let y = Spread::of(self.y.scale, points().map(|point| point.1), TOP + HEIGHT, TOP);
        let y_ticks: Vec<(f64, String)> =
            y.ticks.iter().map(|tick| (y.place(*tick), number(*tick))).collect();
        let digits = y_ticks.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(0);
        let left = 12.0 + digits as f64 * DIGIT;
        let x = Spread::of(self.x.scale, points().map(|point| point.0), left, WIDTH - RIGHT);
        let x_ticks = x.ticks.iter().map(|tick| (x.place(*tick), number(*tick)));
        let (x_label, y_label) = (self.x.label.as_ref(), self.y.label.as_ref());
        let names: Vec<String> = self.keys().into_iter().map(|key| key.label).collect();
        let (height, bottom) = (self.height(), TOP + HEIGHT);
        html! {
            svg class="plot" role="img" viewBox={ "0 0 " (WIDTH) " " (height) }
                width=[top.map(|_| WIDTH)] height=[top.map(|_| height)] y=[top] {
                title { (y_label) " by " (x_label) }
                desc { "Curves: " (names.join("; ")) "." }
                @for (at, name) in y_ticks {
                    line class="grid" x1=(short(x.start)) x2=(short(x.end)) y1=(short(at)) y2=(short(at)) {}
                    text class="tick end" x=(short(left - 6.0)) y=(short(at + 4.5)) { (name) }
                }
                @for (at, name) in x_ticks {
                    line class="axis" x1=(short(at)) x2=(short(at)) y1=(bottom) y2=(bottom + 4.0) {}
                    text class="tick middle" x=(short(at)) y=(bottom + 21.0) { (name) }
                }
                line class="axis" x1=(short(x.start)) x2=(short(x.end)) y1=(bottom) y2=(bottom) {}
                text class="label" x="2" y="13" { (y_label) }
                @for (number, line) in lines(x_label, LABEL_CHARS).into_iter().enumerate() {
                    text class="label middle" x=(short((x.start + x.end) / 2.0))
                        y=(bottom + 39.0 + number as f64 * LINE) { (line) }
                }
                @for (index, curve) in self.curves.iter().enumerate() {
                    (self.draw_curve(index, curve, &x, &y))
                }
                @for stated in &self.stated { (self.draw_stated(stated, &x, &y)) }
            }
        }
    }

    fn draw_curve(&self, index: usize, curve: &Curve, x: &Spread, y: &Spread) -> Markup {
        let drawn: Vec<_> = curve.points.iter().filter(|point| self.can_draw(point)).collect();
        let path: Vec<String> =
            drawn.iter().map(|point| format!("{:.1},{:.1}", x.place(point.0), y.place(point.1))).collect();
        html! {
            g class=(colour(Some(index))) {
                polyline class="curve" points=(path.join(" ")) { title { (curve.label) } }
                @if drawn.len() <= MARKS_MAX {
                    @for point in drawn {
                        path class="mark" d=(shape(index, x.place(point.0), y.place(point.1))) {
                            title { (self.value(&curve.label, point)) }
                        }
                    }
                }
            }
        }
    }

    fn draw_stated(&self, stated: &Stated, x: &Spread, y: &Spread) -> Markup {
        let drawn: Vec<_> = stated.points.iter().filter(|point| self.can_draw(point)).collect();
        let look = self.look(stated);
        let title = |point| self.value(&format!("{}, stated", stated.label), point);
        html! {
            @match (look, drawn.as_slice()) {
                (Look::Dashes(of), [from, .., to]) => {
                    line class={ "dashes " (colour(of)) } x1=(short(x.place(from.0))) y1=(short(y.place(from.1)))
                        x2=(short(x.place(to.0))) y2=(short(y.place(to.1))) { title { (title(to)) } }
                }
                (Look::Ring(of), points) => @for point in points {
                    circle class={ "ring " (colour(of)) } r="6.5"
                        cx=(short(x.place(point.0))) cy=(short(y.place(point.1))) { title { (title(point)) } }
                }
                _ => {}
            }
        }
    }

    /// A point for people.
    fn value(&self, label: &str, &(x, y): &(f64, f64)) -> String {
        let (x_label, y_label) = (self.x.label.as_ref(), self.y.label.as_ref());
        format!("{label}: {} {y_label} at {} {x_label}", significant(y), significant(x))
            .trim_start_matches([',', ' '])
            .to_owned()
    }

    fn can_draw(&self, &(x, y): &(f64, f64)) -> bool {
        // Beyond these, the arithmetic of axes has no numbers.
        const MOST: f64 = 1e150;
        let fits = |scale: Scale, number: f64| match scale {
            Scale::Linear => number.abs() <= MOST && (number == 0.0 || number.abs() >= 1.0 / MOST),
            Scale::Logarithmic(base) => base >= 2 && (1.0 / MOST..=MOST).contains(&number),
        };
        fits(self.x.scale, x) && fits(self.y.scale, y)
    }
}

impl Key {
    /// Its sample, as an SVG element of a page.
    pub fn draw(&self) -> Markup {
        html! { svg class="key" viewBox="0 0 28 14" aria-hidden="true" { (self.sample(14.0, 7.0)) } }
    }

    fn draw_row(&self, top: f64) -> Markup {
        let y = top + LINE / 2.0;
        html! { (self.sample(20.0, y)) text class="tick" x="40" y=(y + 4.5) { (self.label) } }
    }

    fn sample(&self, x: f64, y: f64) -> Markup {
        let line = |class: &str| html! { line class=(class) x1=(x - 13.0) x2=(x + 13.0) y1=(y) y2=(y) {} };
        let (of, sample) = match self.look {
            Look::Curve(number) => {
                (Some(number), html! { (line("curve")) path class="mark" d=(shape(number, x, y)) {} })
            }
            Look::Ring(of) => (of, html! { circle class="ring" cx=(x) cy=(y) r="6" {} }),
            Look::Dashes(of) => (of, line("dashes")),
        };
        html! { g class=(colour(of)) { (sample) } }
    }
}

/// The class of a curve's colour, or of none.
fn colour(number: Option<usize>) -> String {
    number.map_or_else(|| "c".to_owned(), |number| format!("c c{}", number % LOOKS))
}

/// The mark of a curve around a place, as a path. When colours come again, shapes do with others.
fn shape(number: usize, x: f64, y: f64) -> String {
    // Radii around the circle, one after another and again, and by how much of a turn it begins later.
    let (radii, corners, turn): (&[f64], usize, f64) = match (number + number / LOOKS) % LOOKS {
        0 => (&[3.4], 16, 0.0),
        1 => (&[4.5], 4, 0.125),
        2 => (&[4.9], 3, 0.75),
        3 => (&[4.7], 4, 0.0),
        4 => (&[4.9], 3, 0.25),
        5 => (&[5.6, 2.2], 10, 0.75),
        6 => (&[5.2, 1.8], 8, 0.0),
        _ => (&[4.4], 6, 0.0),
    };
    let corner = |corner: usize| {
        let (sin, cos) = ((corner as f64 / corners as f64 + turn) * TAU).sin_cos();
        let radius = radii[corner % radii.len()];
        format!("{:.1} {:.1}", x + radius * cos, y + radius * sin)
    };
    let corners: Vec<String> = (0..corners).map(corner).collect();
    format!("M{}Z", corners.join("L"))
}

/// A text in lines of at most so many characters, unless a word has more.
fn lines(text: &str, chars_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= chars_max => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A place, to a tenth.
fn short(place: f64) -> String {
    format!("{place:.1}")
}

/// A number for people, short.
fn number(number: f64) -> String {
    let rounded = (number * 1e6).round() / 1e6;
    match rounded.abs() {
        size if size >= 1e6 => format!("{}M", rounded / 1e6),
        size if size >= 1e4 => format!("{}k", rounded / 1e3),
        _ => rounded.to_string(),
    }
}

/// A number to four digits.
fn significant(number: f64) -> String {
    let digits = if number == 0.0 { 0.0 } else { 3.0 - number.abs().log10().floor() };
    format!("{number:.*}", digits.clamp(0.0, 9.0) as usize)
}

#[cfg(test)]
mod tests;
