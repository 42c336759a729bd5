#!/usr/bin/env python3
"""Calls every script of script/ as nobody should: --help, words that it does not know, through a link, a suite that is none.

    check_scripts.py ROOT

The scripts run in a copy of a part of the checkout, with programs in place of cmake, apt-get, debootstrap and the like that
only write down that they were called. Needs Python and bash alone.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
STUBBED = ("cmake", "ctest", "apt-get", "dpkg-query", "sudo", "debootstrap", "chroot", "mount", "umount", "mountpoint", "doxygen",
           "dot", "git", "ninja", "id")
SCRIPTS = sorted(path.name for path in (ROOT / "script").iterdir() if not path.name.startswith("."))


class Scripts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="attn-scripts-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.root = self.folder / "checkout"
        shutil.copytree(ROOT / "script", self.root / "script", symlinks=True)
        for name in ("CMakePresets.json", "README.md"):
            shutil.copy(ROOT / name, self.root / name)
        for lesson in ("01_single_query", "05_masking"):
            (self.root / "lessons" / lesson).mkdir(parents=True)
            (self.root / "lessons" / lesson / "exercise.cpp").write_text("/// Exercise 1: nothing.\n")
            (self.root / "lessons" / lesson / "lesson.md").write_text("# Lesson 1: nothing\n")
        (self.root / "docs").mkdir()
        (self.root / "docs" / "page.md").write_text("kept\n")
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.calls = self.folder / "calls"
        for name in STUBBED:
            self.stub(name, "exit 1" if name in ("debootstrap", "mountpoint") else "echo 0" if name == "id" else "exit 0")

    def stub(self, name, does):
        """A program that writes down its call, and does something."""
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.calls}"\n{does}\n')
        path.chmod(0o755)

    def run_script(self, name, *words, script=None, **variables):
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **variables}
        environment.pop("CI", None)
        return subprocess.run([script or self.root / "script" / name, *words], cwd=self.folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def only(self, *names):
        """A PATH with nothing but what every system has, and these: no apt-get and no dpkg-query."""
        folder = self.folder / "only"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("bash", "env", "readlink", "dirname", "basename", "sed", "grep", "mkdir", "rm", "cat", "id", "python3"):
            (folder / name).symlink_to(shutil.which(name))
        for name in names:
            self.stub(name, "exit 0")
            (folder / name).symlink_to(self.bin / name)
        return str(folder)

    def cmake_finds(self, missing):
        """All libraries but these."""
        does = f'''case "$*" in *script/.libraries*) printf '{missing}' >"{self.root}/build/libraries/missing" ;; esac'''
        path = self.bin / "cmake"
        path.unlink()
        self.stub("cmake", does)

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def calls_made(self):
        return self.calls.read_text().split("\n") if self.calls.exists() else []

    def test_every_script_answers_help_and_does_nothing_else(self):
        before = self.files()
        for name in SCRIPTS:
            for flag in ("--help", "-h"):
                with self.subTest(name=name, flag=flag):
                    done = self.run_script(name, flag)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(f"script/{name}", done.stdout)
                    self.assertEqual(done.stderr, "")
        self.assertEqual(self.files(), before)
        self.assertEqual(self.calls_made(), [])

    def test_what_a_script_does_not_know_is_refused_in_one_line_and_nothing_is_done(self):
        before = self.files()
        unknown = {name: [["--nonsense"], ["no such word"], ["../../docs"], ["", "x"], ["-x"]]
                   for name in SCRIPTS}
        unknown["train-model"] = [["--nonsense"], ["a", "b"], ["-x"]]  # a folder can have any name
        for name, calls in unknown.items():
            for words in calls:
                with self.subTest(name=name, words=words):
                    done = self.run_script(name, *words)
                    self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                    self.assertIn(f"{name}", done.stderr.splitlines()[-1])
        self.assertEqual([file for file in self.files() if "__pycache__" not in file], before)
        self.assertEqual([call for call in self.calls_made() if call], [])

    def test_every_script_works_through_a_link_from_elsewhere(self):
        links = self.folder / "links"
        links.mkdir()
        for name in SCRIPTS:
            with self.subTest(name=name):
                (links / f"my-{name}").symlink_to(self.root / "script" / name)
                done = self.run_script(name, "--help", script=links / f"my-{name}")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"script/{name}", done.stdout)
        (links / "exercise").symlink_to(self.root / "script" / "exercise")
        done = self.run_script("exercise", script=links / "exercise")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("script/exercise 5", done.stdout)
        done = self.run_script("lessons", "7", script=links / "my-lessons")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no lesson 7", done.stderr)

    def test_without_apt_get_everything_goes_on_where_cmake_finds_the_libraries(self):
        path = self.only("cmake", "ninja", "c++", "pkg-config", "dot", "ctest", "nproc")
        self.cmake_finds("")
        (self.root / "build/release/bin").mkdir(parents=True)
        (self.root / "build/release/bin/lesson_05_masking").symlink_to(shutil.which("true"))
        for words, then in ((("lessons", "5"), "--target lesson_05_masking"), (("test",), "ctest --preset release")):
            with self.subTest(words):
                if words == ("test",) and not self.has_numpy_and_matplotlib():
                    self.skipTest("NumPy and Matplotlib are needed")
                done = self.run_script(*words, PATH=path)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(any(then in call for call in self.calls_made()), self.calls_made())

    def has_numpy_and_matplotlib(self):
        command = ["/usr/bin/python3", "-c", "import numpy, matplotlib"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def test_without_apt_get_the_missing_libraries_are_named(self):
        path = self.only("cmake", "ninja", "c++", "pkg-config")
        self.cmake_finds("xtensor\\nlibhwy\\nMPI\\n")
        done = self.run_script("lessons", "5", PATH=path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not found: xtensor, Highway. There is no apt-get here; docs/install.md", done.stderr)
        self.assertIn("script/build release builds without asking first", done.stderr)
        self.assertIn("goes on without MPI\n", done.stderr)
        self.assertFalse(any("--build" in call for call in self.calls_made()))

    def test_without_apt_get_and_without_cmake_no_library_is_said_to_be_missing(self):
        done = self.run_script("lessons", "5", PATH=self.only("ninja", "c++", "pkg-config"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("not found: cmake. There is no apt-get", done.stderr)

    def test_apt_get_installs_what_is_not_found_and_nothing_else(self):
        self.stub("dpkg-query", "exit 1")
        for name in ("c++", "pkg-config"):
            self.stub(name, "exit 0")
        self.cmake_finds("fmt\\nlibzip\\n")
        done = self.run_script("bootstrap")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("apt-get install -y -qq --no-install-recommends libfmt-dev libzip-dev", self.calls_made())

    def test_the_site_installs_what_it_needs(self):
        self.stub("dpkg-query", '[[ $* != *doxygen || -e "$0.installed" ]] && echo install ok installed')
        self.stub("apt-get", f'[[ $* != *install* ]] || touch "{self.bin}/dpkg-query.installed"')
        path = self.only("cmake", "ninja", "c++", "pkg-config", "dot")
        for name in ("apt-get", "dpkg-query", "id"):
            link = self.folder / "only" / name
            link.unlink(missing_ok=True)
            link.symlink_to(self.bin / name)
        (self.root / "lessons").rename(self.folder / "lessons")  # there is nothing to build: it is over soon
        done = self.run_script("docs", PATH=path)
        self.assertIn("Installing: doxygen\n", done.stderr)
        self.assertIn("apt-get install -y -qq --no-install-recommends doxygen", self.calls_made())
        self.assertNotIn("not installed", done.stderr)

    def test_only_some_tests_are_built_with_what_they_need_and_run(self):
        for name in ("reference/layers/encoder", "reference/layers/decoder", "engines/fast/decoder", "engines/mpi/layout"):
            file = self.root / "tests" / f"{name}.cpp"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text('TEST_CASE("a sentence")\n')
        (self.root / "tests/reference/layers/helper.cpp").write_text("int helper();\n")
        (self.root / "build/only/bin").mkdir(parents=True)
        (self.root / "build/only/CMakeCache.txt").touch()
        self.stub("attn_tests", "exit 3")
        (self.root / "build/only/bin/attn_tests").symlink_to(self.bin / "attn_tests")
        layers = "reference/layers/decoder.cpp;reference/layers/encoder.cpp"
        for wanted, files, tests in (("layers/encoder", "reference/layers/encoder.cpp", "[#encoder]~[.]"),
                                     ("tests/reference/layers/encoder.cpp", "reference/layers/encoder.cpp", "[#encoder]~[.]"),
                                     ("reference/layers/", layers, "[#decoder]~[.],[#encoder]~[.]"),
                                     ("layers/(de|en)coder", layers, "[#decoder]~[.],[#encoder]~[.]"),
                                     ("decoder", f"engines/fast/decoder.cpp;{layers.split(';')[0]}", "[#decoder]~[.],[#decoder]~[.]")):
            with self.subTest(wanted):
                self.calls.unlink(missing_ok=True)
                done = self.run_script("test", "--only", wanted)
                self.assertEqual((done.returncode, done.stderr), (3, ""))  # its tests' exit code
                calls = self.calls_made()
                self.assertRegex(calls[0], f"^cmake .* -DATTN_ONLY_TESTS={re.escape(files)}$")
                self.assertEqual(calls[1:3], ["cmake --build build/only --target attn_tests", f"attn_tests -# {tests}"])

    def test_only_tests_that_there_are_are_built(self):
        (self.root / "tests/reference").mkdir(parents=True)
        (self.root / "tests/reference/softmax.cpp").write_text('TEST_CASE("a sentence")\n')
        for words in (["--only"], ["--only", ""], ["--only", "latent"], ["--only", "soft"], ["--only", "-x"], ["--only", "softmax", "x"]):
            with self.subTest(words):
                done = self.run_script("test", *words)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
                self.assertIn(f"matches {words[1]} " if len(words) == 2 and words[1] else "expected --only and", done.stderr)
        self.assertEqual(self.calls_made(), [])

    def test_a_new_layer_is_begun_under_its_name_and_no_file_is_overwritten(self):
        paths = ("include/attn/{}.hpp", "src/{}.cpp", "tests/{}.cpp")
        for path in paths:
            (self.root / path.format("reference/layers/x")).parent.mkdir(parents=True)
        shutil.copy(ROOT / "include/attn/attn.hpp", self.root / "include/attn")
        (self.root / "src/reference/layers/rms_norm.cpp").touch()
        before = self.files()
        for words in ([], ["Linear"], ["linear__attention"], ["a", "b"], ["rms_norm"]):
            with self.subTest(words):
                done = self.run_script("new-layer", *words)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))
                self.assertEqual(self.files(), before)
        done = self.run_script("new-layer", "linear_attention")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for path in paths:
            text = (self.root / path.format("reference/layers/linear_attention")).read_text()
            self.assertIn("linear_attention", text)
            self.assertFalse(re.search("new_?layer", text, re.IGNORECASE), path)
        heart = (self.root / "include/attn/attn.hpp").read_text().splitlines()
        known = (ROOT / "include/attn/attn.hpp").read_text().splitlines()
        self.assertEqual(sorted(set(heart) - set(known)), ['#include "attn/reference/layers/linear_attention.hpp"'])
        self.assertEqual([line for line in heart if "linear_attention" not in line], known)

        # What is written compiles.
        folders = (self.root / "include", ROOT / "include", ROOT / "tests", ROOT / "tests/reference/layers")
        check = ["c++", "-std=c++20", "-fsyntax-only", '-DATTN_SOURCE_FOLDER=""', *(f"-I{folder}" for folder in folders)]
        if subprocess.run([*check, "-include", "xtensor/xtensor.hpp", "-include", "test.hpp", "-x", "c++", os.devnull],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("a compiler, xtensor and Catch2 are needed")
        for path in paths[1:]:
            compiled = subprocess.run([*check, self.root / path.format("reference/layers/linear_attention")],
                                      capture_output=True, text=True, check=False)
            self.assertEqual((compiled.returncode, compiled.stderr), (0, ""))

    def test_goldens_are_made_by_their_names(self):
        (self.root / "tests/golden").mkdir(parents=True)
        (self.root / "tests/golden/generate.py").write_text("import sys\nprint(*sys.argv[1:])\n")
        for module in ("torch", "numpy"):
            (self.folder / f"{module}.py").touch()
        for words in ([], ["--check"], ["layers"], ["02_all_queries", "layers"], ["--check", "layers"]):
            with self.subTest(words):
                done = self.run_script("regenerate-goldens", *words, PYTHONPATH=str(self.folder))
                self.assertEqual((done.returncode, done.stdout.split()), (0, words), done.stderr)
        for words in (["layers", "--check"], ["tests/golden/layers.npz"], ["--all"], ["layers", ""]):
            with self.subTest(words):
                done = self.run_script("regenerate-goldens", *words, PYTHONPATH=str(self.folder))
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))

    def test_bootstrap_looks_for_every_library_that_cmake_does_and_the_readme_names_it(self):
        bootstrap = (ROOT / "script" / "bootstrap").read_text()
        readme = (ROOT / "docs" / "install.md").read_text()
        files = [ROOT / "CMakeLists.txt", ROOT / "tests/CMakeLists.txt", ROOT / "bench/CMakeLists.txt",
                 *(ROOT / "cmake").glob("*Dependencies.cmake")]
        names = set()
        for file in files:
            names.update(re.findall(r"^ *find_(?:package|dependency)\(([A-Za-z0-9_-]+)", file.read_text(), re.MULTILINE))
            names.update(re.findall(r"^ *pkg_check_modules\(([A-Za-z0-9_-]+)", file.read_text(), re.MULTILINE))
        rows = [row.split() for row in re.search(r"things='\n(.*?)'", bootstrap, re.DOTALL)[1].splitlines()]
        looked_for = {what: name for name, kind, what, *_ in rows if kind in ("package", "module")}
        self.assertEqual(names - {"PkgConfig", "Threads", "Python3"}, set(looked_for))
        in_readme = set(re.findall(r"^\| ([\w-]+) \|", readme, re.MULTILINE))
        self.assertEqual(set(looked_for.values()) - in_readme, set())

    def test_the_container_and_the_workflow_call_scripts_that_there_are(self):
        self.stub("dpkg-query", "echo install ok installed")
        for name in ("Dockerfile", ".github/workflows/checks.yml"):
            with self.subTest(name):
                text = (ROOT / name).read_text()
                called = re.findall(r"script/([a-z-]+)((?: [a-z]+)*)", re.sub("#.*", "", text))
                self.assertGreater(len(called), 0)
                self.assertEqual({script for script, _ in called} - set(SCRIPTS), set())
                for script, words in called:
                    if script == "bootstrap":
                        self.assertEqual(self.run_script(script, *words.split()).returncode, 0, words)

    def test_format_lists_the_files_that_would_change_and_lays_them_out(self):
        self.stub("dpkg-query", "echo install ok installed")
        self.stub("git", r"printf 'b.cpp\0a.hpp\0removed.hpp\0'")
        for name in ("clang-format-14", "clang-format"):
            self.stub(name, '''[ "$1" != --version ] || { echo "clang-format version 14.0.6"; exit 0; }
[ "$1" = --dry-run ] || exit 0
echo "b.cpp:1:2: error: code should be clang-formatted [-Wclang-format-violations]" >&2
echo "int  a;" >&2
exit 1''')
        for file in ("a.hpp", "b.cpp"):
            (self.root / file).write_text("int  a;\n")
        done = self.run_script("format", "--check")
        self.assertEqual((done.returncode, done.stdout), (1, "b.cpp\n"), done.stderr)
        self.assertEqual(self.run_script("format").returncode, 0)
        self.assertIn("clang-format-14 -i b.cpp a.hpp", self.calls_made())
        self.assertEqual(self.run_script("format", str(self.root / "a.hpp")).returncode, 0)
        self.assertIn(f"clang-format-14 -i {self.root}/a.hpp", self.calls_made())

    def test_another_clang_format_is_refused(self):
        self.stub("dpkg-query", "echo install ok installed")
        for name in ("clang-format-14", "clang-format"):
            self.stub(name, 'echo "clang-format version 19.1.7"')
        done = self.run_script("format", "--check")
        self.assertEqual(done.returncode, 2)
        self.assertIn("needs clang-format 14, found clang-format version 19.1.7", done.stderr)

    def test_the_matrix_removes_nothing_but_its_own_systems(self):
        kept = self.root / "docs" / "page.md"
        for suites in (["../../docs"], ["docs"], [".."], ["/"], ["bookworm trixie"], ["bookworm", "../../docs"], [""], ["."]):
            with self.subTest(suites=suites):
                done = self.run_script("matrix", *suites)
                self.assertEqual(done.returncode, 2)
                self.assertIn("is none of bookworm, trixie, sid", done.stderr)
                self.assertTrue(kept.exists())
        self.assertEqual([call for call in self.calls_made() if call], [])

    def test_a_system_that_can_not_be_made_is_a_failure_and_the_old_one_stays(self):
        systems = self.folder / "systems"
        (systems / "trixie").mkdir(parents=True)
        (systems / "trixie" / "old").write_text("kept\n")
        done = self.run_script("matrix", "trixie", ATTN_MATRIX_FOLDER=str(systems))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("FAILED", done.stdout)
        self.assertTrue((systems / "trixie" / "old").exists())
        self.assertFalse([call for call in self.calls_made() if call.startswith(("chroot", "mount "))])

    def test_a_failing_step_ends_the_trial_of_a_system(self):
        systems = self.folder / "systems"
        (systems / "trixie.bare" / "etc" / "apt" / "apt.conf.d").mkdir(parents=True)
        self.stub("mountpoint", "exit 0")
        for broken in ("git", "mount", "chroot"):
            with self.subTest(broken=broken):
                for name in ("git", "mount", "chroot"):
                    self.stub(name, "exit 1" if name == broken else "exit 0")
                self.calls.unlink(missing_ok=True)
                done = self.run_script("matrix", "trixie", ATTN_MATRIX_FOLDER=str(systems))
                self.assertEqual(done.returncode, 1)
                made = [call.split()[0] for call in self.calls_made() if call]
                self.assertEqual("chroot" in made, broken == "chroot")
                after = made[made.index("chroot"):] if "chroot" in made else []
                self.assertEqual(after.count("umount"), 2 if broken == "chroot" else 0)

    def test_mutants_are_built_tested_listed_and_taken_back(self):
        source = "int sum(int a) { return a + 1; }\nbool less(int a)\n{\n    return a < 2 && true; // a < 2\n}\n"
        for folder in ("src/ops", "tests/ops"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "src" / "ops" / "x.cpp").write_text(source)
        (self.root / "tests" / "ops" / "x.cpp").write_text("")
        tree = self.root / "build" / "mutants" / "tree" / "src" / "ops" / "x.cpp"
        self.stub("git", "printf 'src/ops/x.cpp\\0tests/ops/x.cpp\\0'")
        # What is tested: the sum's operator fails, its constant crashes, another limit never ends, equality compiles not.
        self.stub("ninja", f'''mkdir -p bin; cp {tree} seen
grep -q '||' seen && exit 1
cat >bin/attn_tests <<'END'
#!/bin/bash
grep -q 'a - 1' seen && exit 1
grep -qE 'a [+] [02]' seen && kill -SEGV $$
grep -q 'a > 2' seen && sleep 100
exit 0
END
chmod +x bin/attn_tests''')
        self.stub("ctest", """echo '{"tests": [{"name": "less", "command": ["bin/attn_tests"],
"properties": [{"name": "WORKING_DIRECTORY", "value": "'$PWD'"}]}]}'""")
        words = ("mutants", "99", "--seed", "3", "--patience", "0.3", "--jobs", "1", "--log", self.folder / "log")
        done = self.run_script(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        tried = [line for line in lines if " of 99 " in line]
        self.assertEqual(len(tried), 8, done.stdout)  # + and its 1, <, 2 and true; && compiles not
        self.assertEqual(sum("killed by a test: less" in line and "'+' becomes '-'" in line for line in tried), 1)
        self.assertEqual(sum("killed by a crash: less" in line and "'1' becomes" in line for line in tried), 2)
        self.assertEqual(sum("killed by time: less" in line and "'<' becomes '>'" in line for line in tried), 1)
        survivors = [line for line in lines if line.startswith("survived: ")]
        self.assertEqual(len(survivors), 4, done.stdout)  # a <= 2, a < 1, a < 3, false
        self.assertIn("survived: src/ops/x.cpp:4:21: 'true' becomes 'false' in: return a < 2 && true; // a < 2", survivors)
        self.assertIn("src/ops: 4 of 8 killed", lines)
        self.assertIn("4 of 8 killed, 1 more did not compile", done.stdout)
        # What stands in the log is not tried again.
        self.assertEqual([line for line in self.run_script(*words).stdout.splitlines() if " of 99 " in line], [])
        self.assertEqual(tree.read_text(), source)
        self.assertEqual((self.root / "src" / "ops" / "x.cpp").read_text(), source)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
