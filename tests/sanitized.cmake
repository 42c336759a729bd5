# What runs otherwise with sanitizers than without them.

# attn_tests takes long to start: it runs once for all tests of a file's name. Left out are learners' gaps, what runs the
# same code again for long, and limits on memory or files, which the sanitizers themselves need.
set(catch_flags)
if(Catch2_VERSION VERSION_GREATER_EQUAL 3) # it asks whether a run of no test is meant
    set(catch_flags --allow-running-no-tests)
endif()
foreach(file ${files})
    file(STRINGS ${file} has_tests REGEX "TEST_CASE" LIMIT_COUNT 1)
    cmake_path(GET file STEM name)
    if(has_tests AND NOT TEST tests_in_${name})
        add_test(NAME tests_in_${name} COMMAND attn_tests "-#" "[#${name}]~[.]~[exercises]~[slow]~[limits]" ${catch_flags})
        set_tests_properties(tests_in_${name} PROPERTIES FIXTURES_REQUIRED lesson_runs)
    endif()
endforeach()

# Ranks that share two cores wait for each other most of the time.
set(numbers_of_ranks 1 3)

# tests/hostile: limits that leave the sanitizers no room.
set(without_limits --without memory --without descriptors)

# The same programs on the same kinds of numbers, for minutes: the tests in C++ show the sanitizers all of that code. And what runs no
# program of ours.
set(disabled_tests python_calls python_cache python_package docs_lessons_by_numpy docs_pages docs_for_repository docs_search docs_scripts docs_speeds
                   stories_of_the_small_model sentences_of_the_translator
                   backward_passes_by_numpy mistakes_by_numpy plainly_wrong_by_numpy strangers_by_numpy
                   right_programs_by_numpy modules_by_pytorch decoder_modules_by_pytorch names_of_others_by_pytorch masks_by_pytorch
                   record_by_pytorch vectors_by_pytorch vectors_runners vectors_cheats vectors_program python_functions python_notebook python_port gradients_by_pytorch fast_gradients_by_pytorch fast_errors_by_pytorch)
