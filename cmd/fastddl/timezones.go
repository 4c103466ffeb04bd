package main

// The time zones by name, for machines that have none installed, as small images: with SET time_zone = 'Asia/Tokyo'
// an application must not depend on the server's files.
import _ "time/tzdata"
