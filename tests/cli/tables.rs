//! Tables whose format `cat` finds: it reads them, or refuses them and names the option that reads
//! them. None is read wrong.

use pipemill_tests::test_dir::TestDir;
use serde_json::{Value, json};

use super::{fields, run};

/// The output of `cat` for a file with this name and text.
#[track_caller]
fn read(name: &str, text: &str, options: &[&str], expected: &[Value]) {
    let place = TestDir::new();
    place.write(name, text);
    let ended = run(&place, &[&["cat"][..], options, &[name]].concat()).with_code(0);
    assert_eq!(fields(&ended.text()), expected, "{text:?}");
}

/// The error of `cat` for a file that it does not read. It prints no record.
#[track_caller]
fn refused(name: &str, text: &str, words: &[&str]) {
    let place = TestDir::new();
    place.write(name, text);
    let ended = run(&place, &["cat", name]);
    assert!(matches!(ended.code, Some(64 | 65)), "{text:?}: {ended:#?}");
    assert_eq!(ended.text(), "", "{text:?}");
    let ended = ended.says(words);
    assert!(!ended.stderr.contains("flexible"), "{ended:#?}");
}

#[test]
fn tables_that_are_found() {
    let rows = [json!({"id": 1, "x": "a"}), json!({"id": 2, "x": "b"})];
    for (name, text) in [
        ("cr.csv", "id,x\r1,a\r2,b\r"),
        ("dos.csv", "id,x\r\n1,a\r\n2,b\r\n\u{1a}"),
        ("sep.csv", "sep=;\r\nid;x\r\n1;a\r\n2;b\r\n"),
    ] {
        read(name, text, &[], &rows);
    }
    let sentences = "id\tx\n1\t\" Yes , \" he said .\n2\t\" No .\n3\tRain\n";
    read(
        "quotes.tsv",
        sentences,
        &[],
        &[
            json!({"id": 1, "x": "\" Yes , \" he said ."}),
            json!({"id": 2, "x": "\" No ."}),
            json!({"id": 3, "x": "Rain"}),
        ],
    );
}

#[test]
fn tables_that_need_an_option() {
    refused("c.tsv", "# report\n# C\nid\ttemp\n1\t20.5\n2\t21\n", &["-o 'comment=#'"]);
    refused("c.csv", "# report\nid,temp\n1,20.5\n2,21.0\n", &["-o 'comment=#'"]);
    refused("p.csv", "A report\nby 3\nid,t,h\n1,2,3\n4,5,6\n", &["-o skip_rows=2"]);
    refused("r.csv", "\"x\",\"y\"\n\"1\",2.5,7\n\"2\",3.5,8\n", &["'names=row,x,y'"]);
    refused("e.csv", "id,t,n\n1,\"a \\\", b\",0\n2,x,1\n", &["-o 'escape=\\'"]);
    refused("b.csv", "id,t\n1,\"a \\\"b\\\" c\"\n2,x\n", &["set escape = \"\\\\\""]);
    refused("d.csv", "a,b,a\n1,2,3\n", &["set rename_duplicates = true"]);
    refused("h.csv", "0,1,2\n0.1,0.2,0.3\n", &["set header = true or header = false"]);
    refused("l.csv", "a,b\n1,2\n3,4,5\n", &["line 3 has 3", "needs quotes around the value"]);
    refused("v.csv", "id,x\n1,a\u{b}b\n", &["byte 0x0b (a vertical tab)", "offset 8, in line 2"]);
    refused("cr.txt", "one\rtwo\rthree\r", &["its lines end at CR", "lone_cr"]);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";
    for name in ["x.csv", "x.txt", "x.jsonl", "x"] {
        refused(name, pointer, &["a pointer of Git LFS", "git lfs pull"]);
    }
}

/// The search for the decoder reads rows as the decoder will.
#[test]
fn options_reach_the_search_for_the_decoder() {
    let two = [json!({"id": 1, "t": 20.5}), json!({"id": 2, "t": 21.0})];
    read("h.csv", "# report\nid,t\n1,20.5\n2,21.0\n", &["-o", "comment=#"], &two);
    read("h.tsv", "# report\nid\tt\n1\t20.5\n2\t21.0\n", &["-o", "comment=#"], &two);
    read("p.csv", "A, b, c\n\nid,t\n1,20.5\n2,21.0\n", &["-o", "skip_rows=2"], &two);
    read("q.csv", "id,t\n'1','20.5'\n2,21.0\n", &["-o", "quote='"], &two);
    read("d.csv", "id:t\n1:20.5\n2:21.0\n", &["-o", "delimiter=:"], &two);
    let lacks = [json!({"id": 1, "t": 20.5}), json!({"id": 2, "t": null})];
    read("f.csv", "id,t\n1,20.5\n2\n", &["-o", "flexible=true"], &lacks);
    let escaped = [json!({"id": 1, "t": "a, b"}), json!({"id": 2, "t": "c"})];
    read("e.csv", "id,t\n1,a\\, b\n2,c\n", &["-o", "escape=\\"], &escaped);
}

#[test]
fn the_next_object_tells_the_header_of_an_object_without_records() {
    let place = TestDir::new();
    place.write("in/part-0.csv", "id,v\n");
    place.write("in/part-1.csv", "id,v\n1,2\n");
    place.write("in/part-2.csv", "id,v\n");
    let ended = run(&place, &["cat", "in"]).with_code(0);
    assert_eq!(fields(&ended.text()), [json!({"id": 1, "v": 2})]);
    ended.says(&["header=true", "its only row is the header of"]);
    // Nothing tells whether the row is a header or a record.
    place.write("other/part-0.csv", "Ann,Rome\n");
    place.write("other/part-1.csv", "Bob,Oslo\nCid,Bern\n");
    run(&place, &["cat", "other"]).with_code(64).says(&["there is one row"]);
    place.write("mixed/part-0.csv", "id,v\n");
    place.write("mixed/part-1.jsonl", "{\"id\":1}\n");
    run(&place, &["cat", "mixed"]).with_code(64);
}

/// The features of the second object would be swapped, or its first row lost.
#[test]
fn headers_are_compared_in_every_mode() {
    let place = TestDir::new();
    let first = "age,income,label\n30,1000,0\n40,2000,1\n";
    for (name, second) in [
        ("swapped", "income,age,label\n3000,50,0\n4000,60,1\n"),
        ("headless", "50,3000,0\n60,4000,1\n"),
    ] {
        place.write(&format!("{name}/a.csv"), first);
        place.write(&format!("{name}/b.csv"), second);
        for options in [
            &["-o", "emit=dense", "-o", "label=2"][..],
            &["-o", "emit=dense"],
            &["-o", "emit=row"],
            &["-o", "names=a,b,c"],
            &[],
        ] {
            let args = [&["cat", "-d", "csv", "-o", "header=true"][..], options, &[name]].concat();
            let ended = run(&place, &args);
            assert!(ended.code != Some(0), "{name} {options:?}: {ended:#?}");
            assert_eq!(ended.text().lines().count(), 2, "{name} {options:?}");
            ended.says(&["b.csv", "age"]);
        }
    }
}

#[test]
fn what_the_first_rows_do_not_have() {
    let place = TestDir::new();
    let rows: String = (0..1500).map(|row| format!("{row},\n")).collect();
    place.write("empty.csv", format!("id,force\n{rows}1500,1.5\n"));
    let ended = run(&place, &["cat", "--output", "count", "empty.csv"]).with_code(0);
    assert!(!ended.stderr.contains("warn"), "a value in the first 20,480 rows: {ended:#?}");
    place.write("empty.csv", format!("id,force\n{}", rows.repeat(20)));
    for command in [&["cat", "--output", "count"][..], &["schema"]] {
        let ended = run(&place, &[command, &["empty.csv"]].concat()).with_code(0);
        ended.says(&["warn", "so text: `force`", "types = \"auto,force:float64\""]);
    }
    for (values, says) in [
        (
            "1\nNA\n2\n",
            "is text, because it has \"NA\": if that means that there is none, set null = \"NA\"",
        ),
        ("1\n\"2,5\"\n", "is text, because it has decimal commas: set decimal = \",\""),
    ] {
        place.write("numbers.csv", format!("v\n{values}"));
        let ended = run(&place, &["cat", "-o", "header=true", "numbers.csv"]).with_code(0);
        ended.says(&["warn", "column 0 (`v`)", says]);
    }
    let whole: String = (0..30_000).map(|row| format!("{row},{row}\n")).collect();
    for (value, remedy) in [("0.5", "types = \"auto,v:float64\""), ("NA", "set null = \"NA\"")] {
        place.write("late.csv", format!("id,v\n{whole}1,{value}\n"));
        let ended = run(&place, &["cat", "--output", "count", "late.csv"]).with_code(65);
        let ended = ended.says(&[remedy]);
        assert!(!ended.stderr.contains("on-error"), "{ended:#?}");
        place.write("early.csv", format!("id,v\n1,1\n1,{value}\n{whole}"));
        run(&place, &["cat", "--output", "count", "early.csv"]).with_code(0);
    }
}
