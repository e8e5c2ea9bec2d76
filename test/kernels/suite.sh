#!/bin/bash
# Usage: suite.sh
#
# In the kernel under test: the tests of the packages that /test/packages lists, each as root and as an ordinary user.
# One line for each package; for each test that failed, with what it said behind it; and for each reason by which tests
# were skipped. "skip" is a reason that doctor gives for this kernel, "left" one that is another: a program or a file
# system that this machine does not have.
export LC_ALL=C.UTF-8
. /test/settings
declare -A doctor # what it says to root, and to whom the second run is
doctor[root]=$(nsrun doctor 2>&1)
doctor[user]=$(HOME=/tmp setpriv --reuid 65534 --regid 65534 --clear-groups nsrun doctor 2>&1)

# reasons LOG prints "NUMBER WHO NAME" for each name by which tests were skipped: testenv.Skip says "without NAME: …". Other words
# are printed as "NUMBER WHO - WORDS". What is left to the other run is none, if there is one.
reasons() {
	awk -v once="${NSRUN_TEST_ONCE:-}" '
		BEGIN { who = "root" }
		/^once more, as an ordinary user:/ { who = "user" }
		/^ *=== (RUN|NAME|CONT) / { name = $3; next }
		/^ *--- SKIP: / {
			if (once != "" || said[$3] !~ /was run (as root|where that is) before$|will be run as one$/) print who, said[$3]
			next
		}
		sub(/^ *[a-z_0-9]*\.go:[0-9]*: /, "") { said[name] = sub(/^without /, "") ? substr($0, 1, index($0 ":", ":") - 1) : "- " $0 }
	' "$1" | sort | uniq -c
}

# shown copies lines about whole tests, and prints at once what each said that failed.
shown() {
	awk -W interactive '
		/^ *=== RUN |^ *=== NAME |^ *=== CONT / { name = $3; next }
		/^--- / { print }
		/^ *--- FAIL: / { print "FAIL test " $3; printf "%s", said[$3]; next }
		/^ *--- |^ *=== PAUSE/ { next }
		/^panic: |^fatal error: |^FAIL: / { print "FAIL " $0; rest = 1; next }
		rest && /^\t/ { print "    | " $0; next }
		{ rest = 0 }
		length(said[name]) < 3000 { said[name] = said[name] "    | " $0 "\n" }
	'
}

while read -r package; do
	name=${package//\//-} log=/tmp/suite.log began=$SECONDS
	cd "/src/$package" || exit 1
	"/test/suite/${name/#./root}.test" -test.v -test.timeout 2h ${ONLY:+-test.run "$ONLY"} 2>&1 </dev/null | tee $log | shown
	status=${PIPESTATUS[0]}
	pass=$(grep -c '^ *--- PASS: ' $log) skip=$(grep -c '^ *--- SKIP: ' $log) fail=$(grep -c '^ *--- FAIL: ' $log)
	reasons $log | while read -r number who reason; do
		if [ "${reason#- }" != "$reason" ]; then
			echo "left $package: $number, $who: ${reason#- }"
		elif grep -q "^no  *$reason  " <<<"${doctor[$who]}"; then
			echo "skip $package: $number, $who, without $reason"
		else
			echo "left $package: $number, $who, without $reason"
		fi
	done
	result=ok
	[ $status = 0 ] || result=FAIL
	echo "$result suite $package: $pass passed, $skip skipped, $fail failed, status $status, in $((SECONDS - began)) s"
done </test/packages
