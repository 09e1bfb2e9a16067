//! Reads who reports to whom and prints how deep the organisation is. People
//! are kept in one vector and refer to each other by index.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::time::SystemTime;

type PersonId = u32;
const NOBODY: PersonId = PersonId::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Junior,
    Senior,
    Lead,
    Director,
}

impl Grade {
    fn parse(text: &str) -> Option<Grade> {
        Some(match text {
            "junior" => Grade::Junior,
            "senior" => Grade::Senior,
            "lead" => Grade::Lead,
            "director" => Grade::Director,
            _ => return None,
        })
    }
}

struct Person {
    name: String,
    grade: Grade,
    manager: PersonId,
    reports: Vec<PersonId>,
    salary: u64,
}

#[derive(Default)]
struct Chart {
    people: Vec<Person>,
    by_name: HashMap<String, PersonId>,
    head: PersonId,
}

#[derive(Debug)]
enum ChartError {
    Fields(usize),
    Grade(usize, String),
    Salary(usize, std::num::ParseIntError),
    Twice(usize, String),
}

impl fmt::Display for ChartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChartError::Fields(line) => write!(f, "line {line}: four fields are wanted"),
            ChartError::Grade(line, grade) => write!(f, "line {line}: no grade {grade}"),
            ChartError::Salary(line, error) => write!(f, "line {line}: {error}"),
            ChartError::Twice(line, name) => write!(f, "line {line}: {name} again"),
        }
    }
}

impl Error for ChartError {}

impl Chart {
    /// One person a line: name, grade, salary, manager. The manager comes before
    /// those who report to him; the head of all has a dash.
    fn read(text: &str) -> Result<Chart, ChartError> {
        let mut chart = Chart::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            chart.read_line(number + 1, line)?; // @read-line
        }
        Ok(chart)
    }

    fn read_line(&mut self, number: usize, line: &str) -> Result<(), ChartError> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [name, grade, salary, manager] = fields[..] else {
            return Err(ChartError::Fields(number));
        };
        let grade = Grade::parse(grade).ok_or_else(|| ChartError::Grade(number, grade.to_string()))?;
        let salary = salary.parse().map_err(|e| ChartError::Salary(number, e))?;
        if self.by_name.contains_key(name) {
            return Err(ChartError::Twice(number, name.to_string()));
        }
        self.add(name, grade, salary, manager); // @add
        Ok(())
    }

    fn add(&mut self, name: &str, grade: Grade, salary: u64, manager: &str) {
        let id = self.people.len() as PersonId;
        if manager == "-" {
            self.head = id;
        }
        let boss = self.find(manager);
        self.by_name.insert(name.to_string(), id);
        self.people.push(Person {
            name: name.to_string(),
            grade,
            manager: NOBODY,
            reports: Vec::new(),
            salary,
        });
        self.people[id as usize].manager = boss; // @manager-set
        if boss != NOBODY {
            self.people[boss as usize].reports.push(id);
        }
    }

    fn find(&self, name: &str) -> PersonId {
        self.by_name.get(name).copied().unwrap_or(NOBODY)
    }

    /// How many steps it is from a person to the head.
    fn depth(&self, mut id: PersonId) -> usize {
        let mut steps = 0;
        while id != self.head {
            let person = &self.people[id as usize]; // @fail
            id = person.manager; // @manager-read
            steps += 1;
        }
        steps
    }

    fn by_depth(&self) -> BTreeMap<usize, Vec<&Person>> {
        let mut levels: BTreeMap<usize, Vec<&Person>> = BTreeMap::new();
        for (id, person) in self.people.iter().enumerate() {
            let depth = self.depth(id as PersonId); // @depth
            levels.entry(depth).or_default().push(person);
        }
        levels
    }

    fn cost_below(&self, id: PersonId) -> u64 {
        let person = &self.people[id as usize];
        let below: u64 = person.reports.iter().map(|&r| self.cost_below(r)).sum();
        person.salary + below
    }
}

const DEPARTMENTS: [&str; 8] = [
    "Ana, director, 9000, -\nBo, lead, 7000, Ana\nCy, senior, 5000, Bo\nDi, junior, 3500, Bo",
    "Eva, director, 9100, -\nFil, lead, 6900, Eva\nGus, senior, 5100, Fil\nHal, senior, 5000, Eva",
    "Ida, director, 8800, -\nJon, senior, 5200, Ida\n# joined in May\nKai, junior, 3400, Jon",
    "Lea, director, 9300, -\nMax, lead, 7100, Lea\nNoa, junior, 3600, Max\nOle, junior, 3600, Max",
    "Pia, director, 9000, -\nRoy, senior, 5300, Qiu\nQiu, lead, 7000, Pia\nSam, junior, 3300, Qiu",
    "Tom, director, 8900, -\nUwe, lead, 6800, Tom\nVal, senior, 5050, Uwe",
    "Wim, lead, 7200, -\nXan, senior, 5150, Wim\nYul, junior, three, Xan",
    "Zoe, director, 9400, -\nAbe, lead, 7050, Zoe\nBea, lead, 7000, Zoe\nCal, junior, 3550, Bea",
];

fn print_costs(chart: &Chart) {
    for person in chart.people.iter().filter(|p| p.grade >= Grade::Lead) {
        let id = chart.find(&person.name);
        println!("{:>6} {}", chart.cost_below(id), person.name);
    }
}

fn report(department: usize) -> Result<usize, Box<dyn Error>> {
    let chart = Chart::read(DEPARTMENTS[department])?; // @read
    let levels = chart.by_depth(); // @levels
    for (depth, people) in &levels {
        let names: Vec<&str> = people.iter().map(|p| p.name.as_str()).collect();
        println!("{depth}: {}", names.join(" "));
    }
    print_costs(&chart);
    Ok(levels.len())
}

/// The department whose turn it is.
fn turn() -> usize {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let mixed = (u64::from(now.subsec_nanos()) << 22 ^ u64::from(std::process::id())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize % DEPARTMENTS.len()
}

fn main() {
    let department = turn();
    match report(department) { // @report
        Ok(levels) => println!("department {department}: {levels} levels"),
        Err(error) => eprintln!("department {department}: {error}"),
    }
}
