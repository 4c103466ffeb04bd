package release

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is that of a part of a cluster, without its patch level.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("v%d.%d", v.Major, v.Minor) }

// Less says whether v is older than o.
func (v Version) Less(o Version) bool {
	return v.Major < o.Major || v.Major == o.Major && v.Minor < o.Minor
}

var versionText = regexp.MustCompile(`^v?(\d+)\.(\d+)\.\d+`)

// Parse reads the versions that the parts of a cluster report: "v8.5.3", "8.5.3",
// "8.0.11-TiDB-v8.5.3-alpha". Builds for development may have no version.
func Parse(text string) (v Version, ok bool) {
	if _, release, ok := strings.Cut(text, "-TiDB-"); ok {
		text = release
	}
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return Version{}, false
	}
	v.Major, _ = strconv.Atoi(m[1])
	v.Minor, _ = strconv.Atoi(m[2])
	return v, true
}
