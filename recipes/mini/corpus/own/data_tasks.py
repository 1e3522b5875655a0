"""Tasks about JSON, SQL, the shell, extraction and small mistakes in code."""

import json
import random

from corpus.own import data
from corpus.own.wording import and_last, joined

COLUMNS = {
    "users": ["name", "age", "email"],
    "orders": ["total", "date", "status"],
    "products": ["name", "price", "stock"],
    "books": ["title", "author", "year"],
    "employees": ["name", "salary", "team"],
    "customers": ["name", "city", "phone"],
    "movies": ["title", "year", "rating"],
    "songs": ["title", "artist", "length"],
}


def _block(language: str, code: str) -> str:
    """Return a fenced block of code."""
    return f"```{language}\n{code}\n```"


def to_json(rng: random.Random, name: str) -> tuple[str, str]:
    """Ask to write a few fields as JSON."""
    age = rng.randint(5, 80)
    city = rng.choice(data.table("words")["cities"])
    email = f"{name.lower()}@example.com"
    records: list[dict[str, object]] = [
        {"name": name, "age": age},
        {"name": name, "city": city},
        {"name": name, "age": age, "city": city},
        {"name": name, "email": email},
        {"city": city, "population": age * 10000},
    ]
    record = records[rng.randrange(5)]
    keys, values = and_last(list(record)), joined(list(record.values()))
    forms = (
        f"Return a JSON object with {keys}: {values}.",
        f"Write this as JSON: {', '.join(f'{key} {value}' for key, value in record.items())}.",
        f"Convert to JSON: {'; '.join(f'{key}={value}' for key, value in record.items())}",
        f"Give me JSON with the keys {keys} for {values}.",
    )
    asked = rng.choice(forms)
    if rng.random() < 0.5:
        return asked, json.dumps(record)
    return asked, _block("json", json.dumps(record, indent=2))


def extraction(rng: random.Random, name: str) -> tuple[str, str]:
    """Ask to find a detail in a sentence."""
    email = f"{name.lower()}@example.com"
    phone = f"555-{rng.randint(1000, 9999)}"
    city = rng.choice(data.table("words")["cities"])
    forms = (
        (f"Extract the email address: Please write to {name} at {email} before Friday.", email),
        (f"Extract the name: My name is {name} and I live in {city}.", name),
        (f"Extract the phone number: You can reach {name} at {phone} after six.", phone),
        (f"Which city is mentioned? {name} moved to {city} last year.", city),
        (f"Extract the city: The train to {city} leaves at nine.", city),
    )
    return rng.choice(forms)


def sql(rng: random.Random) -> tuple[str, str]:
    """Ask for an SQL query."""
    table = rng.choice(list(COLUMNS))
    column = rng.choice(COLUMNS[table])
    value = rng.randint(1, 100)
    forms = (
        (
            f"Write a SQL query that selects all rows of the table {table}.",
            f"SELECT * FROM {table};",
        ),
        (f"Write a SQL query that counts the rows of {table}.", f"SELECT COUNT(*) FROM {table};"),
        (f"SQL: select the column {column} from {table}.", f"SELECT {column} FROM {table};"),
        (f"Write SQL to sort {table} by {column}.", f"SELECT * FROM {table} ORDER BY {column};"),
        (
            f"Write a SQL query for the rows of {table} where {column} is greater than {value}.",
            f"SELECT * FROM {table} WHERE {column} > {value};",
        ),
        (
            f"Write a SQL query that returns the first {value} rows of {table}.",
            f"SELECT * FROM {table} LIMIT {value};",
        ),
        (
            f"How do I delete the rows of {table} where {column} is null?",
            f"DELETE FROM {table} WHERE {column} IS NULL;",
        ),
        (
            f"Write SQL that counts the rows of {table} for each {column}.",
            f"SELECT {column}, COUNT(*) FROM {table} GROUP BY {column};",
        ),
        (
            f"What is the largest {column} in {table}? Write SQL.",
            f"SELECT MAX({column}) FROM {table};",
        ),
    )
    asked, query = rng.choice(forms)
    return asked, _block("sql", query)


def shell(rng: random.Random) -> tuple[str, str]:
    """Ask for a shell command."""
    stem = rng.choice(["data", "notes", "report", "log", "list", "input"])
    ext = rng.choice(["txt", "csv", "json", "md", "py", "rs", "log"])
    word = rng.choice(["error", "TODO", "hello", "main", "name"])
    file = f"{stem}.{ext}"
    forms = (
        (f"Write a shell command that finds all .{ext} files.", f'find . -name "*.{ext}"'),
        (f"Write a shell command that counts the lines of {file}.", f"wc -l {file}"),
        (f"How do I search for {word} in {file}?", f'grep "{word}" {file}'),
        (f"Shell command to copy {file} to backup", f"cp {file} backup/"),
        (f"How do I show the last ten lines of {file}?", f"tail -n 10 {file}"),
        (f"How do I sort {file}?", f"sort {file}"),
        (
            f"Write a shell command that deletes all .{ext} files in this directory.",
            f"rm *.{ext}",
        ),
        (
            f"Write a bash loop over all .{ext} files.",
            f'for file in *.{ext}; do\n  echo "$file"\ndone',
        ),
    )
    asked, command = rng.choice(forms)
    return asked, _block("sh", command)


def broken_code(rng: random.Random) -> tuple[str, str]:
    """Ask what is wrong with a few lines of code."""
    fn = rng.choice(["add", "area", "total", "double", "check", "greet"])
    a = rng.choice(["x", "n", "a", "value"])
    fix, wrong = "Fix this code:", "What is wrong here?"
    forms = (
        (
            fix,
            "python",
            f"def {fn}({a})\n    return {a}",
            "The colon after the function header is missing:",
            f"def {fn}({a}):\n    return {a}",
        ),
        (
            fix,
            "python",
            f"def {fn}({a}):\nreturn {a}",
            "The body of the function must be indented:",
            f"def {fn}({a}):\n    return {a}",
        ),
        (
            wrong,
            "python",
            f"if {a} = 5:\n    print({a})",
            "A comparison needs `==`, because `=` assigns a value:",
            f"if {a} == 5:\n    print({a})",
        ),
        (
            fix,
            "python",
            f'print("{fn}"',
            "The closing parenthesis is missing:",
            f'print("{fn}")',
        ),
        (
            fix,
            "rust",
            f"let {a} = 5;\n{a} = 6;",
            "The variable must be mutable:",
            f"let mut {a} = 5;\n{a} = 6;",
        ),
        (
            fix,
            "rust",
            f"fn {fn}({a}: i32) -> i32 {{\n    {a} + 1;\n}}",
            "The semicolon turns the last line into a statement. Remove it to return the value:",
            f"fn {fn}({a}: i32) -> i32 {{\n    {a} + 1\n}}",
        ),
        (
            fix,
            "python",
            "for i in range(5)\n    print(i)",
            "The colon after the for line is missing:",
            "for i in range(5):\n    print(i)",
        ),
        (
            fix,
            "rust",
            f'let s = String::from("{fn}");\nlet t = s;\nprintln!("{{s}}");',
            "The value was moved to `t`. Clone it if you need both:",
            f'let s = String::from("{fn}");\nlet t = s.clone();\nprintln!("{{s}}");',
        ),
        (
            fix,
            "javascript",
            f"const {a} = 1;\n{a} = 2;",
            "A const cannot be assigned again. Use let:",
            f"let {a} = 1;\n{a} = 2;",
        ),
    )
    asked, language, broken, why, fixed = rng.choice(forms)
    return f"{asked}\n{_block(language, broken)}", f"{why}\n\n{_block(language, fixed)}"
