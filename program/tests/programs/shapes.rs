pub enum Shape {
    Dot,
    Line(u32),
    Square(u32),
    Circle(f64),
    Text(String),
    Group(Vec<Shape>),
}

#[inline(never)]
pub fn area(shape: &Shape, scale: &[u32]) -> f64 {
    match shape {
        Shape::Dot => 0.0,
        Shape::Line(length) => f64::from(scale[*length as usize]),
        Shape::Square(side) => f64::from(side * side),
        Shape::Circle(radius) => radius * radius * 3.14,
        Shape::Text(text) => text.parse::<f64>().unwrap(),
        Shape::Group(shapes) => shapes.iter().map(|shape| area(shape, scale)).sum(),
    }
}

fn main() {
    let count = std::env::args().count() as u32;
    let shapes = vec![Shape::Dot, Shape::Line(count), Shape::Square(count), Shape::Circle(2.0), Shape::Text("3".into())];
    println!("{}", area(&Shape::Group(shapes), &[1, 2, count]));
}
